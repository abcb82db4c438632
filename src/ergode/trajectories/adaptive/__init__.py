"""Adaptive steps: an error estimate sets the size of each step."""
