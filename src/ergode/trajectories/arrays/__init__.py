"""Fields whose variables are arrays of any size; kernels loop over the elements."""
