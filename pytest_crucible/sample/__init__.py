"""Asking models: one background loop, bounded concurrency, and an outcome for every sample that was asked."""
