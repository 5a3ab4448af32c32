"""The hooks of runs on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    from pytest_crucible.runs.run_analysis import RunAnalysis
    from pytest_crucible.session.experiment import ExperimentDraft

_FOLDER = "pytest_crucible.features.scale"


def pytest_crucible_commands() -> dict[str, str]:
    summary = "What each node of a run has sent, and which scores differently."
    return {
        "plan --samples": f"{_FOLDER}.plan_command:plan",
        "nodes": Command(f"{_FOLDER}.nodes_command:nodes", summary),
    }


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"nodes": Placed(125, f"{_FOLDER}.nodes_section", lambda plan: "executor" in plan.features)}


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Record where the samples of an experiment are sent from."""
    executor = draft.settings.option("executor")
    if executor:
        from pytest_crucible.features.scale.nodes import EXECUTOR

        draft.plan_value(EXECUTOR, executor.partition(":")[0].partition("?")[0])


def pytest_crucible_analyse_run(analysis: RunAnalysis) -> None:
    """Let the section on nodes read the blocks of a run that nodes have sent."""
    if any("executor" in plan.features for plan in analysis.plans):
        from pytest_crucible.features.scale.nodes import with_blocks

        analysis.cuts.append(with_blocks)
