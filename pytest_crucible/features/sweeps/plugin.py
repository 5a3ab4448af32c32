"""The hooks of sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.features.sweeps.session_sweep import SessionSweep
    from pytest_crucible.records import Plan
    from pytest_crucible.runs.reproduction import PlanComparison
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import Announcement

PLUGIN = "crucible-session-sweep"
"""The name of the plugin of a session with a sweep, which has the hooks of its run."""


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"sweep": Placed(40, "pytest_crucible.features.sweeps.section", lambda plan: "sweep" in plan.features)}


def pytest_crucible_plan_session(collection: ExperimentCollection) -> None:
    """Plan the sweep of a session whose candidate is a family."""
    if not collection.opened_arms[0].competitors:
        return
    from pytest_crucible.features.sweeps.session_sweep import SessionSweep

    sweep = SessionSweep(collection)
    sweep.plan()
    if sweep.planned is not None:
        collection.config.pluginmanager.register(sweep, PLUGIN)


def pytest_crucible_announce(announcement: Announcement) -> None:
    """Show what the sweep of an experiment sends before."""
    for plan in announcement.plans:
        if "sweep" not in plan.features:
            continue
        from pytest_crucible.features.sweeps.records import sweep_lines

        announcement.lines[plan.nodeid] += [(20, line) for line in sweep_lines(plan)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Read how far the sweep is that would be resumed, where the session only estimates."""
    sweep: SessionSweep | None = session.config.pluginmanager.get_plugin(PLUGIN)
    if sweep is not None:
        sweep.read_resumed()


def pytest_crucible_compare_plans(then: Plan, now: Plan) -> PlanComparison:
    """Compare the sweep of a stored plan with that of today's."""
    from pytest_crucible.features.sweeps.grid import compare_sweeps

    return compare_sweeps(then, now)


def pytest_testnodedown(node: Any, error: Any) -> None:
    """Tell the other workers of pytest-xdist that one has died: they may wait for a winner that it had to choose."""
    if error:
        from pytest_crucible.features.sweeps.session_sweep import report_lost_worker
        from pytest_crucible.session.session import session_of

        session = session_of(node.config)
        if session is not None and session.messages.begun:
            report_lost_worker(session.resources.store, session.run, node.gateway.id)
