"""Backward differentiation formulas (BDF) for reaction mechanisms: many steps, few factorisations."""
