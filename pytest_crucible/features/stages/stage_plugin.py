"""The plugin of a session with stages: orders its items stage by stage, and runs each experiment's stages in turn."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.features.stages.barrier import StageBarrier
from pytest_crucible.features.stages.items import order_by_stage, stage_of
from pytest_crucible.features.stages.session_stages import SessionStages
from pytest_crucible.features.stages.worker_stages import WorkerStages, crash_reports, stage_reports
from pytest_crucible.runs.plugins import load_extensions
from pytest_crucible.session.reports import rerun_report

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import ExperimentRun
    from pytest_crucible.session.session import CrucibleSession


def open_stages(session: CrucibleSession) -> StagePlugin:
    """Return the plugin of a session with `crucible_stages`."""
    stages = SessionStages(
        settings=session.settings,
        run=session.run,
        store=lambda: session.resources.store,
        is_worker=session.is_worker,
        extensions=lambda: load_extensions(session.config.hook, session.config),
        expected=lambda: session.xfail_items,
    )
    return StagePlugin(session, stages)


class StagePlugin:
    """A pytest plugin, registered when `crucible_stages` is set."""

    def __init__(self, session: CrucibleSession, stages: SessionStages) -> None:
        self._session = session
        self._config = session.config
        self._stages = stages
        self._worker: WorkerStages | None = None

    def order_items(self, items: list[pytest.Item]) -> None:
        """Order the items stage by stage. A worker runs its later stages only after its items, outside of pytest's loop."""
        if self._stages.is_worker:
            self._worker = WorkerStages(self._config, self._stages, self._barrier(), self._session.interruptions.check)
        else:
            items[:] = order_by_stage(items, self._session.plans_by_nodeid(), self._stages.stages, self._stages.last)

    def run_stage(self, run: ExperimentRun) -> bool | None:
        """Set up the stage that an item runs; return True where a worker runs it later. Skips a stage that is not reached."""
        experiment, plan = run.experiment, run.experiment.plan
        if self._worker is not None and self._worker.defer(run.item, plan):
            return True
        number = stage_of(run.item, plan)
        reason = self._stages.reason_to_skip(plan, number)
        if reason:
            self._stages.enter(experiment)
            pytest.skip(reason)
        self._stages.stage_run(plan, number).set_up(run)
        run.after.append(partial(self._stages.complete, plan, number))
        return None

    def pytest_crucible_sampled(self, interrupted: bool) -> None:
        """Make the last decision."""
        if not interrupted:
            self._stages.finish()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run the later stages of a worker's experiments, when its items have run."""
        result = yield
        if self._worker is not None:
            self._worker.run(session, self._session.plans_by_nodeid())
        return result

    @pytest.hookimpl(trylast=True, optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Report a worker's later stages in the controller, and let the other workers stop waiting for it."""
        if not self._session.messages.begun:
            return
        worker = node.gateway.id
        self._barrier().leave(worker)
        places = self._session.workers.places.values()
        begun = [report for place, report in places if place == worker] if error else []
        reports = stage_reports(node) + crash_reports(worker, begun)
        self._session.report_items(node.config.pluginmanager.get_plugin("session"), reports)

    def _barrier(self) -> StageBarrier:
        return StageBarrier(self._stages.store(), self._stages.run)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Let --lf run an experiment again whose later stage failed: pytest cannot run a stage's item by its name."""
        collected = getattr(report, "crucible_collected", None)
        last_failed = self._config.pluginmanager.get_plugin("lfplugin")
        if collected is not None and report.failed and last_failed is not None:
            last_failed.pytest_runtest_logreport(report=rerun_report(report.nodeid, "skipped"))
            last_failed.pytest_runtest_logreport(report=rerun_report(collected))
