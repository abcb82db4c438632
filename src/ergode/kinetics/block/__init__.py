"""A zone on a block of CUDA threads."""
