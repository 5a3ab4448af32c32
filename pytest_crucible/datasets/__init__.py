"""Datasets: load, check, identify and draw samples."""

from pytest_crucible.datasets.load import hash_samples, identify, load_file, load_rows
from pytest_crucible.datasets.selection import select, subset

__all__ = ["hash_samples", "identify", "load_file", "load_rows", "select", "subset"]
