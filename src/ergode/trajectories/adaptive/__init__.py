"""Steps of the size that a tolerance allows."""
