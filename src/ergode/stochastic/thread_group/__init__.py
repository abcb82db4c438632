"""Realizations on a GPU, a group of threads for each."""
