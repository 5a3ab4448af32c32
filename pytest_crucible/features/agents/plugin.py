"""The hooks of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import ExperimentDraft, ExperimentRun

_FOLDER = "pytest_crucible.features.agents"


METRICS = ("calls", "steps", "tool_calls", "repeated_calls", "tokens", "wall_s")


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"agents": Placed(127, f"{_FOLDER}.section", lambda plan: "endpoint" in plan.features)}


def pytest_crucible_metrics() -> dict[str, str]:
    return {name: f"{_FOLDER}.agents:{name}" for name in METRICS}


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Bind the endpoint for each unit of an experiment whose function takes it."""
    if "endpoint" in draft.takes:
        from pytest_crucible.features.agents.binding import bind_endpoint

        bind_endpoint(draft)


def pytest_crucible_run(run: ExperimentRun) -> None:
    """Notice a function that blocks the loop on which its requests would be answered."""
    if "endpoint" in run.experiment.arguments:
        from pytest_crucible.features.agents.binding import watch_loop

        watch_loop(run)
