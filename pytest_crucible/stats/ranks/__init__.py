"""Rank statistics: tests, dominance, shifts and quantiles."""
