"""How the next firing is found: one file an algorithm."""
