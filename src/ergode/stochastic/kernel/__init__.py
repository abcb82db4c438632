"""One realization inside a kernel: what fires next, and what interrupts it."""
