"""The substrate: devices, kernels, random numbers, chunks, status, results. Knows no model."""
