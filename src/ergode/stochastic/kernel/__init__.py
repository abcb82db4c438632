"""One realization inside a kernel: the next firing, and interruptions."""
