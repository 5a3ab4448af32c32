"""The hooks of sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.features.sweeps.session_sweep import SessionSweep
    from pytest_crucible.records import Plan
    from pytest_crucible.runs.provenance import PlanComparison
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import Announcement, ExperimentEstimate, ExperimentRun, SessionEstimate
    from pytest_crucible.session.session import CrucibleSession

PLUGIN = "crucible-session-sweep"
"""The name of the plugin of a session with a sweep."""


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"sweep": Placed(40, "pytest_crucible.features.sweeps.section")}


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
    from pytest_crucible.features.sweeps.announcement import sweep_lines

    for plan in announcement.plans:
        announcement.lines[plan.nodeid] += [(20, line) for line in sweep_lines(plan)]


def pytest_crucible_prepare(collection: ExperimentCollection) -> None:
    """Let the members compete as they were trained."""
    sweep = session_sweep(collection.config)
    if sweep is not None:
        sweep.replace_trained()


def pytest_crucible_enter(collection: ExperimentCollection, run: str) -> None:
    """Enter the choosing half into the run store."""
    sweep = session_sweep(collection.config)
    if sweep is not None:
        sweep.choice(run).begin(resume=collection.settings.resume)


def pytest_crucible_begin(session: CrucibleSession, items: list[pytest.Item]) -> None:
    """Move the test that chooses the winner before all others, which wait for it."""
    sweep = session_sweep(session.config)
    if sweep is not None:
        sweep.put_first(items)
        if not session.messages.problems:
            sweep.begin(session)


def pytest_crucible_run(run: ExperimentRun) -> None:
    """Choose the winner, or wait for it, before the experiment is sent. In later stages the winner is the candidate already."""
    sweep = session_sweep(run.item.config)
    if sweep is not None and run.is_first:
        run.before.append(sweep.set_winner)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Read how far the sweep is that would be resumed, where the session only estimates."""
    sweep = session_sweep(session.config)
    if sweep is not None:
        sweep.read_resumed()


def pytest_crucible_estimate(estimate: ExperimentEstimate) -> None:
    """Estimate the choosing half with the experiment that chooses."""
    sweep = session_sweep(estimate.item.config)
    if sweep is not None:
        sweep.add_estimate(estimate)


def pytest_crucible_estimate_session(estimate: SessionEstimate, config: pytest.Config) -> None:
    """Name the members and the trials that may have to be trained."""
    sweep = session_sweep(config)
    if sweep is not None:
        sweep.complete_estimate(estimate)


def pytest_crucible_compare_plans(then: Plan, now: Plan) -> PlanComparison:
    """Compare the sweep of a stored plan with that of today's."""
    from pytest_crucible.features.sweeps.grid import compare_sweeps

    return compare_sweeps(then, now)


def pytest_testnodedown(node: Any, error: Any) -> None:
    """Under xdist: tell the other workers that one has died, for they may wait for a winner that it had to choose."""
    if error:
        from pytest_crucible.features.sweeps.sweep_waiting import report_lost_worker
        from pytest_crucible.session.session import session_of

        session = session_of(node.config)
        if session is not None and session.messages.begun:
            report_lost_worker(session.resources.store, session.run, node.gateway.id)


def session_sweep(config: pytest.Config) -> SessionSweep | None:
    """Return the sweep of a session; None without one."""
    sweep: SessionSweep | None = config.pluginmanager.get_plugin(PLUGIN)
    return sweep
