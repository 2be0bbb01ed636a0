"""Style transfer: modern English into that of Shakespeare (Xu et al. 2012)."""

from onenth.lab.tasks.style.task import STYLE

__all__ = ["STYLE"]
