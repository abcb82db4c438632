"""Epidemics in time steps: tau-leaping on a network."""
