"""The exact epidemic of any model, by windows of time."""
