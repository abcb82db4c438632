"""Reaction-diffusion: realizations by subvolumes."""
