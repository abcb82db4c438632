"""Functions of numbers inside kernels: elementary, special, random."""
