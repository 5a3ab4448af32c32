"""The hooks of runs on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession

EXECUTOR_PLUGIN = "crucible-executor"
"""The name of the plugin of a session whose units are sent by workers of a cluster."""


def pytest_crucible_open(session: CrucibleSession) -> None:
    """Connect a session to its cluster. A session that sends nothing, and a worker of a cluster, need none."""
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
