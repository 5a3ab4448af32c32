"""The sampling stage: one background loop, bounded concurrency, and an outcome for every unit."""
