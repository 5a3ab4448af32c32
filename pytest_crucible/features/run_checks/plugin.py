"""The hooks of the checks of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import ExperimentDraft


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"run_checks": Placed(5, "pytest_crucible.features.run_checks.section")}


def pytest_crucible_commands() -> dict[str, str]:
    return {"calibrate --server": "pytest_crucible.features.run_checks.server_command:calibrate_server"}


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Keep the project's severities in the plan, so that a stored run is checked as its session was."""
    own = draft.settings.option("checks_of_runs")
    if own:
        from pytest_crucible.features.run_checks.finding import OWN_SEVERITIES, read_severities

        draft.plan_value(OWN_SEVERITIES, read_severities(own))
