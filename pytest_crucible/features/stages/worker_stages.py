"""The later stages of a worker of pytest-xdist: they run when pytest has run all of the worker's items.

xdist distributes each item once, so that its workers cannot be given the items of later stages. Each worker continues with the
experiments that it has begun, and its reports travel to the controller when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from pytest_crucible.features.stages.barrier import StageBarrier
from pytest_crucible.features.stages.records import FIRST_STAGE
from pytest_crucible.features.stages.session_stages import SessionStages
from pytest_crucible.records import Plan
from pytest_crucible.session.items import collected_nodeid, repeat_item

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
