"""Readers and writers for file formats of other programs."""
