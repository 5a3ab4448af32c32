"""The plugin of a session with stages: orders its items stage by stage, and runs the stages of each experiment in turn."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from pytest_crucible.features.stages.definition import FIRST_STAGE
from pytest_crucible.features.stages.session_stages import SessionStages, order_by_stage, stage_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.runs.plugins import load_extensions
from pytest_crucible.session.items import collected_nodeid, repeat_item
from pytest_crucible.session.reports import rerun_report
from pytest_crucible.store.decisions import add_decision, load_decisions
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    from pytest_crucible.session.experiment import ExperimentRun
    from pytest_crucible.session.session import CrucibleSession


# A stage takes seconds at least, and each look reads three rows or so.
POLL_S = 0.1
_BEGUN, _DOWN = "workers of stages", "workers that ended"


@dataclass(frozen=True)
class StageBarrier:
    """One process's part in a barrier that all workers of a run pass together."""

    store: RunStore
    run: str

    def enter(self, worker: str) -> None:
        """Enter a worker, before pytest runs its first test."""
        self._add(_BEGUN, worker)

    def leave(self, worker: str) -> None:
        """Enter that a worker has ended, or has no experiment, so that the others stop waiting for it."""
        self._add(_DOWN, worker)

    def pass_stage(self, worker: str, stage: int, check: Callable[[], None]) -> None:
        """Enter that a worker has run a stage, and wait until all others have, or have ended.

        `check` is called meanwhile, and may raise KeyboardInterrupt.
        """
        self._add(_subject_of(stage), worker)
        while not self._workers(_BEGUN) <= self._workers(_DOWN) | self._workers(_subject_of(stage)):
            check()
            time.sleep(POLL_S)

    def _add(self, subject: str, worker: str) -> None:
        # Its number is its key: a run has few workers, whose names differ.
        add_decision(self.store, self.run, subject, zlib.crc32(worker.encode()) >> 1, {"worker": worker})

    def _workers(self, subject: str) -> set[str]:
        return {body["worker"] for body in load_decisions(self.store, self.run, subject).values()}


def _subject_of(stage: int) -> str:
    return f"workers that ran stage {stage}"


REPORTS = "crucible_stage_reports"
"""The reports of later stages, in a worker's output."""


class WorkerStages:
    """Runs the later stages of the experiments that one worker has begun."""

    def __init__(
        self, config: pytest.Config, stages: SessionStages, barrier: StageBarrier, check: Callable[[], None]
    ) -> None:
        self._config, self._stages, self._barrier, self._check = config, stages, barrier, check
        self._worker: str = config.workerinput["workerid"]  # type: ignore[attr-defined]  # xdist's
        self._items: list[pytest.Function] = []
        self._barrier.enter(self._worker)

    def defer(self, item: pytest.Function, plan: Plan) -> bool:
        """Remember an item that xdist has given to this worker; return whether its experiment begins at a later stage."""
        if collected_nodeid(item) != item.nodeid:
            return False
        self._items.append(item)
        return 0 < FIRST_STAGE.of(plan) <= self._stages.last

    def run(self, session: pytest.Session, plans: Mapping[str, Plan]) -> None:
        """Run all later stages, each after all workers have run the one before."""
        reports: list[Any] = self._config.workeroutput.setdefault(REPORTS, [])  # type: ignore[attr-defined]  # xdist's
        try:
            for number in range(1, self._stages.last + 1 if self._items else 0):
                self._barrier.pass_stage(self._worker, number - 1, self._check)
                name = self._stages.stages[number].name
                items = [
                    repeat_item(item, name, number)
                    for item in self._items
                    if FIRST_STAGE.of(plans[item.nodeid]) <= number
                ]
                reports += [self._serialize(report) for report in self._run_items(items)]
                if session.shouldfail or session.shouldstop:
                    break
        finally:
            self._barrier.leave(self._worker)

    def _run_items(self, items: Sequence[pytest.Item]) -> list[pytest.TestReport]:
        return [
            report
            for item, following in zip_longest(items, items[1:])
            for report in runtestprotocol(item, log=False, nextitem=following)
        ]

    def _serialize(self, report: pytest.TestReport) -> Any:
        return self._config.hook.pytest_report_to_serializable(config=self._config, report=report)


def stage_reports(node: Any) -> list[pytest.TestReport]:
    """Return, in the controller, the reports of the later stages of a worker that has ended."""
    config = node.config
    reports = [
        config.hook.pytest_report_from_serializable(config=config, data=data)
        for data in getattr(node, "workeroutput", {}).get(REPORTS, ())
    ]
    for report in reports:
        report.node = node
    return reports


def crash_reports(worker: str, begun: Iterable[pytest.TestReport]) -> list[pytest.TestReport]:
    """Return a failed report for each experiment of a worker that has died, whose stages did not end; for the controller.

    pytest-xdist itself reports only the test that it had given to the worker last.
    """
    return [
        pytest.TestReport(
            nodeid=report.nodeid,
            location=report.location,
            keywords={},
            outcome="failed",
            longrepr=f"worker {worker!r} crashed before the last stage; continue with --crucible-resume",
            when="call",
        )
        for report in begun
    ]


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
