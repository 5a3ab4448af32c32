"""The plugin of a session with stages: orders its items stage by stage, and runs each experiment's stages in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_crucible.records import Plan
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.stage_barrier import StageBarrier
from pytest_crucible.session.stage_items import order_by_stage, stage_of
from pytest_crucible.session.stage_run import StageRun
from pytest_crucible.session.stages import SessionStages
from pytest_crucible.session.verdict_reports import rerun_report
from pytest_crucible.session.worker_reports import WorkerReports
from pytest_crucible.session.worker_stages import WorkerStages, crash_reports, stage_reports


class StagePlugin:
    """A pytest plugin, registered when `crucible_stages` is set."""

    def __init__(self, config: pytest.Config, stages: SessionStages, check_interrupt: Callable[[], None]) -> None:
        self._config = config
        self._stages = stages
        self._check_interrupt = check_interrupt
        self._worker: WorkerStages | None = None

    def order_items(self, items: list[pytest.Item], plans: Mapping[str, Plan]) -> None:
        """Order the items stage by stage. A worker runs its later stages only after its items, outside of pytest's loop."""
        if self._stages.is_worker:
            self._worker = WorkerStages(self._config, self._stages, self._barrier(), self._check_interrupt)
        else:
            items[:] = order_by_stage(items, plans, self._stages.stages, self._stages.last)

    def defer(self, item: pytest.Function, plan: Plan) -> bool:
        """Return whether a worker runs the item later, with its stage."""
        return self._worker is not None and self._worker.defer(item, plan)

    def begin_stage(self, item: pytest.Item, experiment: Experiment) -> StageRun:
        """Return the stage that an item runs. Skips the item if the session does not reach it."""
        plan = experiment.plan
        number = stage_of(item, plan)
        reason = self._stages.reason_to_skip(plan, number)
        if reason:
            self._stages.enter(experiment)
            pytest.skip(reason)
        return self._stages.stage_run(plan, number)

    def complete(self, plan: Plan, stage: StageRun) -> None:
        """Record that an experiment has run a stage to its end."""
        self._stages.complete(plan, stage.number)

    def run_later_stages(self, session: pytest.Session, plans: Mapping[str, Plan]) -> None:
        """Run the later stages of a worker's experiments, when its items have run."""
        if self._worker is not None:
            self._worker.run(session, plans)

    def end_worker(self, node: Any, workers: WorkerReports, *, died: bool) -> list[pytest.TestReport]:
        """Return, in the controller, the reports of a worker's later stages; the other workers stop waiting for it."""
        worker = node.gateway.id
        self._barrier().leave(worker)
        begun = [report for place, report in workers.places.values() if place == worker] if died else []
        return stage_reports(node) + crash_reports(worker, begun)

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
