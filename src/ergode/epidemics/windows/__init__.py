"""The exact epidemic of any model, a window of time at once."""
