"""The items of joined tests while they run: their outcomes so far, their events, and their rows in the run store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_crucible.records import Outcome, Sample, Unit
from pytest_crucible.sample.deadline import Deadline
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.events import EventPublisher, SampleSpan
from pytest_crucible.session.joined_tests import (
    Crucible,
    JoinedTest,
    arm_name,
    function_nodeid,
    sample_id,
    settle_outcome,
    store_item,
)
from pytest_crucible.session.resources import Resources

OUTCOME = pytest.StashKey[Outcome]()
SPAN = pytest.StashKey[SampleSpan]()


class JoinedItems:
    """Runs and stores the items of all joined tests of a session."""

    def __init__(
        self,
        collection: ExperimentCollection,
        resources: Resources,
        publisher: EventPublisher,
        deadline: Deadline | None,
    ) -> None:
        self._collection = collection
        self._resources = resources
        self._publisher = publisher
        self._deadline = deadline

    def crucible(self, item: pytest.Item) -> Crucible:
        """Return the `crucible` fixture of an item; skips the item after the run's deadline."""
        outcome = self._outcome(item)
        if self._deadline is not None and self._deadline.has_passed():
            cut_off = self._deadline.lose(outcome)
            outcome.lost, outcome.detail = cut_off.lost, cut_off.detail
            pytest.skip(cut_off.detail)
        opened_arm, experiment = self._collection.opened_arms[outcome.unit.arm], function_nodeid(item)
        if self._publisher.sample_emit is not None:
            plan = self._collection.joined[experiment].plan
            item.stash[SPAN] = SampleSpan(self._publisher.sample_emit, plan, opened_arm.arm, sample_id(item))
        return Crucible(opened_arm, sample_id(item), outcome, lambda: self._resources.loop, experiment)

    def observe(
        self,
        item: pytest.Item,
        joined: JoinedTest,
        call: pytest.CallInfo[Any],
        report: pytest.TestReport,
        observed: Callable[..., None] | None,
    ) -> None:
        """Update the outcome at the end of each phase, and store it once, at teardown: subtests report a phase repeatedly.

        A wrong answer becomes an expected failure if a verdict over all samples follows. Raises StoreError.
        """
        outcome = self._outcome(item)
        if call.excinfo is not None and call.when != "teardown":
            settle_outcome(outcome, call.excinfo.value)
            if outcome.failure == "assertion" and joined.has_verdicts and report.failed:
                report.outcome = "skipped"
                report.wasxfail = f"one wrong answer: {outcome.detail}"
        if call.when == "teardown":
            try:
                store_item(outcome, joined, sample_id(item), self._resources.writer, observed)
            finally:
                if SPAN in item.stash:
                    item.stash[SPAN].stop(outcome)

    def _outcome(self, item: pytest.Item) -> Outcome:
        if OUTCOME not in item.stash:
            joined = self._collection.joined[function_nodeid(item)]
            names = [arm.name for arm in joined.plan.arms]
            number = names.index(arm_name(item) or names[0])
            name = sample_id(item)
            unit, sample = Unit(joined.positions[name], 0, number, 0), Sample(id=name, input=name)
            item.stash[OUTCOME] = Outcome(unit, started=time.time(), sample=sample)
        return item.stash[OUTCOME]
