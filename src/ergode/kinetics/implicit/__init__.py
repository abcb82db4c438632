"""Implicit methods: one factorisation for each step."""
