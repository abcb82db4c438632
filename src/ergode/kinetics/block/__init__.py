"""Integration of one zone by a block of CUDA threads."""
