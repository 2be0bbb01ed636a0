"""Texts: read from files, cut into tokens, and put into batches."""
