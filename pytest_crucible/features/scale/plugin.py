"""The hooks of runs on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import ExperimentDraft
    from pytest_crucible.session.session import CrucibleSession

_FOLDER = "pytest_crucible.features.scale"
EXECUTOR_PLUGIN = "crucible-executor"
"""The name of the plugin of a session whose units are sent by workers of a cluster."""


def pytest_crucible_commands() -> dict[str, str]:
    summary = "What each node of a run has sent, and which scores differently."
    return {
        "merge": Command(f"{_FOLDER}.merge_command:merge", "One run of the files that shards have written."),
        "plan --samples": f"{_FOLDER}.plan_command:plan",
        "nodes": Command(f"{_FOLDER}.nodes_command:nodes", summary),
    }


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"nodes": Placed(125, f"{_FOLDER}.nodes_section", lambda plan: "executor" in plan.features, of_counts=True)}


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Record where the samples of an experiment are sent from."""
    executor = draft.settings.option("executor")
    if executor:
        from pytest_crucible.features.scale.nodes import EXECUTOR

        draft.plan_value(EXECUTOR, executor.partition(":")[0].partition("?")[0])


def pytest_crucible_open(session: CrucibleSession) -> None:
    """Let a session run one shard, open its results, and connect it to its cluster, as its options say."""
    if shard := session.settings.option("shard"):
        from pytest_crucible.features.scale.shard_session import open_shard

        open_shard(session, shard)
    # A shard is one file, which `crucible merge` reads.
    elif session.settings.option("results") and not session.is_worker:
        from pytest_crucible.features.scale.results import open_results

        open_results(session)
    if session.settings.option("executor") and not session.is_worker and session.collection.spends:
        from pytest_crucible.features.scale.executor import open_executor

        session.config.pluginmanager.register(open_executor(session), EXECUTOR_PLUGIN)


def pytest_configure_node(node: Any) -> None:
    """Refuse workers of pytest-xdist beside those of a cluster."""
    from pytest_crucible.session.settings import read_settings

    if read_settings(node.config).option("executor"):
        import pytest

        raise pytest.UsageError(
            "--crucible-executor cannot be combined with pytest-xdist: leave out -n, or the executor"
        )
