"""Drift between two samples of one field: numbers, categories, or texts as vectors.

Each test returns a p-value, and for numbers and categories a distance with bounds, which a margin can be compared with.
"""

from pytest_crucible.stats.data_drift.categories import compare_categories, same_value
from pytest_crucible.stats.data_drift.numbers import compare_numbers
from pytest_crucible.stats.data_drift.result import FieldDrift, decide_margin
from pytest_crucible.stats.data_drift.stability import stability_of_categories, stability_of_numbers
from pytest_crucible.stats.data_drift.vectors import compare_vectors

__all__ = [
    "FieldDrift",
    "compare_categories",
    "compare_numbers",
    "compare_vectors",
    "decide_margin",
    "same_value",
    "stability_of_categories",
    "stability_of_numbers",
]
