"""A reaction network as flat tables."""
