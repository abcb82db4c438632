"""From a Python function to a compiled kernel: its text, its syntax, its permitted operations."""
