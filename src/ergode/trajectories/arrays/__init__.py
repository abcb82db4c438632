"""Fields whose variables are arrays of any size: loops stay loops."""
