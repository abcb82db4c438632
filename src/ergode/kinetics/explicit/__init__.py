"""Explicit methods, algebraically stabilised for stiff species."""
