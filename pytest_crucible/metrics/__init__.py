"""What replies are scored by: metrics for text, numbers, JSON and usage, and the decorator that makes one of a function."""

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.numbers import final_number, final_number_matches
from pytest_crucible.metrics.schema import valid_json
from pytest_crucible.metrics.text import contains_expected, exact_match, matches, normalise
from pytest_crucible.metrics.usage import latency_s, output_tokens

__all__ = [
    "Metric",
    "NotApplicable",
    "contains_expected",
    "exact_match",
    "final_number",
    "final_number_matches",
    "latency_s",
    "matches",
    "metric",
    "normalise",
    "output_tokens",
    "valid_json",
]
