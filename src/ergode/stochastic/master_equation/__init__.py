"""The master equation of a reaction network, solved on the states that have probability."""
