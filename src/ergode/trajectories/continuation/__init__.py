"""Continuation: branches of equilibria and cycles, and curves of their bifurcations."""
