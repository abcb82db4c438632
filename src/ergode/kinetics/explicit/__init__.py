"""Explicit methods, made stable by algebra where a species is stiff."""
