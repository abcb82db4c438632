"""The sparse grid: its lattice, its cells, how they come and go."""
