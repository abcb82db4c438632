"""Densities that follow the flow: cells of the prior keep their mass and move with the field."""
