"""Conditions of the reference run: a zone of a thermonuclear supernova."""

TYPE_IA = {"temperature": 7e9, "density": 1e8, "initial": {"12C": 0.49992, "16O": 0.5}}
