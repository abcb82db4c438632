"""The history of delay equations: storage and interpolation."""
