"""The sparse grid: its lattice and cells, their growth and pruning."""
