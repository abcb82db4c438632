"""Steps of one size."""
