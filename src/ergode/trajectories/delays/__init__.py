"""The history of delay equations: where it is kept, and how it is read."""
