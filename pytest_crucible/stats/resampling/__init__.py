"""Bootstrap and permutation: exact laws where the scores lie on a grid, seeded resampling elsewhere."""
