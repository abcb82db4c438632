"""How long something stays as it is: distributions, in Python and inside kernels."""
