"""python -m onenth, as torchrun starts it."""

from onenth.cli import main

main()
