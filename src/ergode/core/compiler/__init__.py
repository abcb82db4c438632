"""From a Python function to a compiled kernel: its text, its syntax, what it may use."""
