"""One step of a differential equation, by each method."""
