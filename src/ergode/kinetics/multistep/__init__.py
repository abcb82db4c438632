"""Backward differentiation formulas for chemistry: many steps, few factorisations."""
