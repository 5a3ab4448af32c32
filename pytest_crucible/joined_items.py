"""The items of joined tests while they run: what each has shown so far, settled, told of and stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_crucible.agenda import Agenda
from pytest_crucible.joining import Crucible, Joined, arm_name, function_nodeid, record, sample_id, settle
from pytest_crucible.records import Outcome
from pytest_crucible.resources import Resources
from pytest_crucible.sample.deadline import Deadline
from pytest_crucible.telling import SampleTold, Telling

OUTCOME = pytest.StashKey[Outcome]()
TOLD = pytest.StashKey[SampleTold]()


class JoinedItems:
    """One a session."""

    def __init__(self, agenda: Agenda, resources: Resources, telling: Telling, deadline: Deadline | None) -> None:
        self._agenda = agenda
        self._resources = resources
        self._telling = telling
        self._deadline = deadline

    def crucible(self, item: pytest.Item) -> Crucible:
        """The `crucible` fixture of an item, which is skipped after the run's deadline."""
        outcome = self._outcome(item)
        if self._deadline is not None and self._deadline.has_passed():
            cut_off = self._deadline.lose(outcome)
            outcome.lost, outcome.detail = cut_off.lost, cut_off.detail
            pytest.skip(cut_off.detail)
        contender, experiment = self._agenda.contenders[outcome.arm], function_nodeid(item)
        if self._telling.samples is not None:
            plan = self._agenda.joined[experiment].plan
            item.stash[TOLD] = SampleTold(self._telling.samples, plan, contender.arm, sample_id(item))
        return Crucible(contender, sample_id(item), outcome, lambda: self._resources.loop, experiment)

    def observe(
        self,
        item: pytest.Item,
        joined: Joined,
        call: pytest.CallInfo[Any],
        report: pytest.TestReport,
        observed: Callable[..., None] | None,
    ) -> None:
        """Settle at the end of each phase, store once at the last: with subtests a phase is reported more than once.

        A wrong answer becomes an expected one, where a verdict over all samples is to come. Raises StoreError.
        """
        outcome = self._outcome(item)
        if call.excinfo is not None and call.when != "teardown":
            settle(outcome, call.excinfo.value)
            if outcome.failure == "assertion" and joined.judged and report.failed:
                report.outcome = "skipped"
                report.wasxfail = f"one wrong answer: {outcome.detail}"
        if call.when == "teardown":
            try:
                record(outcome, joined, sample_id(item), self._resources.writer, observed)
            finally:
                if TOLD in item.stash:
                    item.stash[TOLD].stop(outcome)

    def _outcome(self, item: pytest.Item) -> Outcome:
        if OUTCOME not in item.stash:
            joined = self._agenda.joined[function_nodeid(item)]
            names = [arm.name for arm in joined.plan.arms]
            number = names.index(arm_name(item) or names[0])
            item.stash[OUTCOME] = Outcome(number, joined.positions[sample_id(item)], 0, started=time.time())
        return item.stash[OUTCOME]
