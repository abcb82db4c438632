"""Rates, energies and equilibria of matter."""
