"""What is read off trajectories: bifurcations and Lyapunov exponents."""
