"""Data checks: what a dataset has to be before anything is sent.

Each expectation is a function that returns a `Check`, for `@pytest.mark.data_check(...)` and `check_samples`. All of them take
`severity="error"` or `"warn"`; those on single values also take `mostly`, the least share of values that have to meet them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible.datasets.checks.answers import (
        expect_answer_not_in_prompt as expect_answer_not_in_prompt,
    )
    from pytest_crucible.datasets.checks.check import Check as Check

# Name -> module: a suite that imports one check does not load scipy for the others.
_HOME = {
    **dict.fromkeys(("Check", "column_check", "row_check"), "check"),
    "check_samples": "run",
    "standard_checks": "standard",
    **dict.fromkeys(
        ("expect_column_to_exist", "expect_column_to_be_of_type", "expect_column_count_to_equal"), "schema"
    ),
    **dict.fromkeys(
        (
            "expect_column_values_to_be_between",
            "expect_column_values_to_be_in_set",
            "expect_column_values_to_match_regex",
            "expect_column_values_to_not_be_null",
            "expect_column_values_to_be_unique",
            "expect_column_values_to_be_increasing",
            "expect_column_values_to_be_decreasing",
            "expect_column_value_lengths_to_be_between",
            "expect_no_missing_values",
        ),
        "values",
    ),
    **dict.fromkeys(
        (
            "expect_column_mean_to_be_between",
            "expect_column_median_to_be_between",
            "expect_column_stdev_to_be_between",
            "expect_column_quantile_to_be",
            "expect_column_values_to_be_normal",
        ),
        "statistics",
    ),
    **dict.fromkeys(
        (
            "expect_label_balance",
            "expect_label_cardinality",
            "expect_feature_correlation",
            "expect_table_row_count_to_be_between",
        ),
        "labels",
    ),
    "expect_no_data_drift": "drift",
    **dict.fromkeys(
        (
            "expect_column_values_to_be_valid_timestamps",
            "expect_column_timestamps_to_be_chronological",
            "expect_column_timestamps_to_be_within_range",
            "expect_column_timestamp_intervals_to_be_regular",
        ),
        "times",
    ),
    **dict.fromkeys(
        (
            "expect_column_values_to_be_valid_emails",
            "expect_column_values_to_be_valid_urls",
            "expect_column_values_to_be_valid_uuids",
            "expect_column_values_to_match_format",
            "expect_column_string_length_distribution",
        ),
        "strings",
    ),
    **dict.fromkeys(("expect_all", "expect_any", "expect_at_least"), "combined"),
    **dict.fromkeys(("expect_no_duplicates", "expect_one_answer_per_input", "expect_group_share_below"), "duplicates"),
    **dict.fromkeys(
        ("expect_answer_not_in_prompt", "expect_balanced_answer_key", "expect_length_not_to_predict_label"), "answers"
    ),
    **dict.fromkeys(
        (
            "expect_clean_text",
            "expect_no_canaries",
            "expect_prompts_to_fit",
            "expect_json_schema",
            "expect_pandera",
        ),
        "texts",
    ),
    **dict.fromkeys(("expect_no_secrets", "expect_no_personal_data"), "leaks"),
    "expect_not_contaminated": "contamination",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name.startswith("expect_"):
        from pytest_crucible.records.suggestions import closest_name

        near = closest_name(name, _HOME)
        hint = f"did you mean {near}?" if near else "the reference of data checks lists all"
        # An AttributeError would become "cannot import name", without the suggestion.
        raise ImportError(f"{name} is not a known check; {hint}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
