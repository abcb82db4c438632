"""How probability moves from cell to cell in a step."""
