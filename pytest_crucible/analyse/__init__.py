"""Computing: stored replies to estimates, target results and comparisons. Nothing is decided here."""
