"""Drift between two datasets, field by field."""

from pytest_crucible.datasets.drift.compare import DriftReport, DriftRow, compare_datasets
from pytest_crucible.datasets.drift.rows import load_rows_of_file

__all__ = ["DriftReport", "DriftRow", "compare_datasets", "load_rows_of_file"]
