"""Simulation of molecules by rules, without a network."""
