"""Bootstrap and permutation tests: exact distributions where the scores lie on a grid, seeded resampling elsewhere."""
