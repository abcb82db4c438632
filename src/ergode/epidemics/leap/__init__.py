"""Tau-leaping of epidemics on networks."""
