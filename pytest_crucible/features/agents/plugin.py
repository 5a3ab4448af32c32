"""The hooks of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

    from pytest_crucible.records import Conversation, Plan, View
    from pytest_crucible.session.experiment import ExperimentDraft, ExperimentRun
    from pytest_crucible.store.runs import RunStore

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
    if "workspace" in draft.takes:
        from pytest_crucible.features.agents.workspaces import bind_workspace

        bind_workspace(draft)


def pytest_crucible_run(run: ExperimentRun) -> None:
    """Notice a function that blocks the loop on which its requests would be answered."""
    if "endpoint" in run.experiment.arguments:
        from pytest_crucible.features.agents.binding import watch_loop

        watch_loop(run)


def pytest_crucible_check_item(item: pytest.Item, is_experiment: bool) -> str:
    """Return what is wrong where a test has an environment that nothing uses."""
    if not any(mark.name == "environment" for mark in item.own_markers):
        return ""
    if not is_experiment:
        return "has an environment but is not an experiment: mark it with @pytest.mark.crucible(dataset=...), or remove the marker"
    return (
        "" if "workspace" in getattr(item, "fixturenames", ()) else "has an environment: take the argument `workspace`"
    )


def pytest_crucible_sample_views(
    store: RunStore, experiment: int, plan: Plan, position: int, conversations: Sequence[Conversation]
) -> Iterable[View]:
    """Return the tools and programs of a sample's agents."""
    from pytest_crucible.features.agents.sample_views import sample_views

    return sample_views(store, experiment, plan, position, conversations)
