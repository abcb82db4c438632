"""What an epidemic is: compartments, seeds, and what is done about it."""
