"""Data checks: requirements on a dataset, checked before anything is sent, and its profile."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "data_checks",
    options=(
        Option(
            "checks",
            "data checks: first (before sampling), only (without sampling), off (not at all)",
            "first",
            key="string",
            metavar="WHEN",
            choices=("first", "only", "off"),
        ),
    ),
    markers=(
        "data_check(*checks): data checks, such as expect_no_missing_values('label'), that must pass before anything is sent",
    ),
    tables={
        "checks": "pytest_crucible.features.data_checks.plugin:CHECKS",
        "withheld": "pytest_crucible.features.data_checks.plugin:WITHHELD",
    },
)
