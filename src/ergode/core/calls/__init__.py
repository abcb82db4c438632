"""A call as a whole: parts and their store, checkpoints, chunks, results on a device."""
