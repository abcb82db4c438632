"""Transport of probability between cells in a step."""
