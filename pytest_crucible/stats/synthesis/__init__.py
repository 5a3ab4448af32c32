"""Combining results: meta-analysis over suites, and ratings from pairwise judgements."""
