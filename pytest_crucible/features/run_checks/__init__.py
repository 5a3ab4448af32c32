"""Checks of a run: whether what was sent and answered in each arm is what its verdicts are about."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "run_checks",
    options=(
        Option(
            "checks_of_runs",
            "how severe the checks of runs are, for example 'equal replies: warn, sent: fail'",
            key="string",
            command_line=False,
        ),
    ),
)
