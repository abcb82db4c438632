"""The command ``ergode``."""
