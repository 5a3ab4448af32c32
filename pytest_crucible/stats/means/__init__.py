"""Means of independent, paired, clustered and repeated values: tests, intervals and bounds."""
