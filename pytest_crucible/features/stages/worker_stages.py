"""A barrier between stages for the workers of pytest-xdist: each waits, through the run store, until all have run a stage.

Workers wait only after pytest has run their items. Within an item they would wait for a test that xdist starts only when
theirs has ended.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from pytest_crucible.features.stages.definition import FIRST_STAGE
from pytest_crucible.features.stages.session_stages import SessionStages
from pytest_crucible.records import Plan
from pytest_crucible.session.repeated_items import collected_nodeid, repeat_item
from pytest_crucible.store.decisions import add_decision, load_decisions
from pytest_crucible.store.runs import RunStore

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
