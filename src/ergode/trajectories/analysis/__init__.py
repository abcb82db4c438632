"""Analysis of trajectories: bifurcation diagrams, basins of attraction, Lyapunov exponents."""
