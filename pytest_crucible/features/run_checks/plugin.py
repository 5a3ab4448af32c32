"""The hooks of the checks of runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from pytest_crucible.records import Run
    from pytest_crucible.runs.reproduction import ReproductionCheck
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import ExperimentDraft


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"run_checks": Placed(5, "pytest_crucible.features.run_checks.section")}


def pytest_crucible_metrics() -> dict[str, str]:
    return {"sampler_drift": "pytest_crucible.features.run_checks.sampler_drift:sampler_drift"}


def pytest_crucible_commands() -> dict[str, str]:
    return {"calibrate --server": "pytest_crucible.features.run_checks.server_command:calibrate_server"}


def pytest_crucible_check_run(run: Run) -> Iterator[ReproductionCheck]:
    """Yield what was measured in each experiment, and every problem of it."""
    from pytest_crucible.features.run_checks.section import measured_checks

    for analysis in run.experiments:
        yield from measured_checks(analysis)


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Keep the project's severities in the plan, so that a stored run is checked as its session was."""
    own = draft.settings.option("checks_of_runs")
    if own:
        from pytest_crucible.features.run_checks.finding import OWN_SEVERITIES, read_severities

        draft.plan_value(OWN_SEVERITIES, read_severities(own))


def pytest_crucible_prepare(collection: ExperimentCollection) -> None:
    """Record the renderers of arms, and the shapes of the prompts that they were trained on."""
    arms = [
        arm for opened in collection.opened_arms for arm in (opened.arm, *(each.arm for each in opened.competitors))
    ]
    if not collection.problems and any(arm.adapter.startswith("tinker") for arm in arms):
        from pytest_crucible.features.run_checks.renderers import record_renderers

        record_renderers(collection)
    if not collection.problems and collection.spends and any(arm.trained_on for arm in arms):
        from pytest_crucible.features.run_checks.training_shapes import record_training_shapes

        record_training_shapes(collection)
