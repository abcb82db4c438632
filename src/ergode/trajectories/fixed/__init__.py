"""Fixed-step methods."""
