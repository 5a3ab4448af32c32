"""Permutation tests of whether two arms are alike, and the bootstrap."""
