"""The exact epidemic of any model, event by event, on the CPU."""
