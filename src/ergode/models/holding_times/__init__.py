"""Holding times: probability distributions, in Python and inside kernels."""
