"""Result types: numbers with the name of their method, and a note where a number is missing."""

from pytest_crucible.stats.results.comparison import ComparisonResult, Direction, Estimand
from pytest_crucible.stats.results.estimate import EstimateResult
from pytest_crucible.stats.results.significance import Bound, Bounds, Effect, Significance, Status

__all__ = [
    "Bound",
    "Bounds",
    "ComparisonResult",
    "Direction",
    "Effect",
    "Estimand",
    "EstimateResult",
    "Significance",
    "Status",
]
