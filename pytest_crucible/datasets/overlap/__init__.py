"""Texts that overlap: duplicate rows, similar word sets, shared word sequences, and samples that training rows contain."""

from pytest_crucible.datasets.overlap.duplicates import NEAR, Duplicate, find_duplicates, is_near

__all__ = ["NEAR", "Duplicate", "find_duplicates", "is_near"]
