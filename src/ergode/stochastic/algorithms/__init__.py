"""Algorithms that find the next firing: one file per algorithm."""
