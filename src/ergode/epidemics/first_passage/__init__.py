"""The exact epidemic without reinfection, as a shortest-path problem."""
