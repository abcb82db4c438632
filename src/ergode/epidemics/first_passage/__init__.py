"""The exact epidemic in which nobody is infected twice, as a shortest-path problem."""
