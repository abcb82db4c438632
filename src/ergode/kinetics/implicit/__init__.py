"""Implicit methods: one matrix a step."""
