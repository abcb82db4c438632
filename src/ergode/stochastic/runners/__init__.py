"""Realizations on a device, chunk by chunk."""
