"""Computing: stored answers to estimates, target results and comparisons. Nothing is decided here."""
