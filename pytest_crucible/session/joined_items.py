"""The items of joined tests while they run: their fixture, their outcomes, their events, and their rows in the run store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.metrics.models.scorers import ScoredReply, set_current_reply, set_scored_reply
from pytest_crucible.records import MetricFacts, Outcome, Sample, Unit
from pytest_crucible.records.errors import SpecError
from pytest_crucible.sample.invoke import lost_reason
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.sample.sampler import BlockingSampler, Sampler
from pytest_crucible.score import own_scores
from pytest_crucible.session.call import ScoreRecorder, classify_exception
from pytest_crucible.session.events import SampleSpan
from pytest_crucible.session.items import JoinedTest, arm_name, function_nodeid, sample_id
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.state import SessionState
from pytest_crucible.store.writer import Writer

OUTCOME = pytest.StashKey[Outcome]()
"""The outcome of the attempt that runs."""
ENDED = pytest.StashKey[Outcome]()
"""The outcome of the attempt that counts so far: `--reruns` (pytest-rerunfailures) runs a failed item again."""
SPAN = pytest.StashKey[SampleSpan]()


class Crucible:
    """The `crucible` fixture: the arm of this item, a sampler for it, and `score`."""

    def __init__(
        self,
        opened_arm: OpenedArm,
        sample: str,
        outcome: Outcome,
        loop: Callable[[], BackgroundLoop],
        experiment: str,
        metrics: Iterable[MetricFacts] = (),
    ) -> None:
        self.arm = opened_arm.arm
        self.outcome = outcome
        self.sample_id = sample
        self._opened_arm = opened_arm
        self._loop = loop
        self._experiment = experiment
        self._facts = {metric.name: metric for metric in metrics}

    # Cached: an item has a single sampler, because the sampler numbers its requests.
    @cached_property
    def sampler(self) -> BlockingSampler:
        """Sends requests to this item's arm: `crucible.sampler.generate(...)`."""
        if self._opened_arm.backend is None:
            raise SpecError(
                "no adapter to query: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
            )
        sampler = Sampler(self._opened_arm.backend, self.arm, self.sample_id, 0, self._experiment, self.outcome.calls)
        return BlockingSampler(sampler, self._loop().loop)

    def close(self) -> None:
        """Cancel the streams that the item has left unread."""
        if "sampler" in self.__dict__:
            self._loop().submit(self.sampler.close()).result()

    def score(self, **scores: Any) -> None:
        """Record one value for each name: bool, a number, None if it does not apply, or a str as a label."""
        ScoreRecorder(self.outcome.scores, self._facts)(**scores)


class JoinedItems:
    """Runs and stores the items of all joined tests of a session."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def crucible(self, item: pytest.Item) -> Crucible:
        """Return the `crucible` fixture of an item; skips the item after the run's deadline."""
        state = self._state
        outcome = self._outcome(item)
        if state.deadline is not None and state.deadline.has_passed():
            cut_off = state.deadline.lose(outcome)
            outcome.lost, outcome.detail = cut_off.lost, cut_off.detail
            pytest.skip(cut_off.detail)
        opened_arm = state.collection.opened_arms[outcome.unit.arm]
        plan = state.collection.joined[function_nodeid(item)].plan
        if state.publisher.sample_emit is not None:
            item.stash[SPAN] = SampleSpan(state.publisher.sample_emit, plan, opened_arm.arm, sample_id(item))
        # Until the teardown, what the item and its fixtures record belongs to it.
        set_current_reply(plan.nodeid, sample_id(item), 0, outcome.calls, feature_rows=outcome.feature_rows)
        return Crucible(opened_arm, sample_id(item), outcome, lambda: state.resources.loop, plan.nodeid, plan.metrics)

    def observe(
        self,
        item: pytest.Item,
        joined: JoinedTest,
        call: pytest.CallInfo[Any],
        report: pytest.TestReport,
        observed: Callable[..., None] | None,
    ) -> None:
        """Update the outcome at the end of each phase, and store an answer at teardown: subtests report a phase repeatedly.

        An item that is run again has one answer: its first, which a later attempt neither replaces nor loses. A wrong answer
        becomes an expected failure if a verdict over all samples follows. Raises StoreError.
        """
        outcome = self._outcome(item)
        if call.excinfo is not None and call.when != "teardown":
            settle_outcome(outcome, call.excinfo.value)
            if outcome.failure == "assertion":
                outcome.detail = key_redactor(item.config).redact_cut(outcome.detail)
            if outcome.failure == "assertion" and joined.has_verdicts and report.failed:
                report.outcome = "skipped"
                report.wasxfail = f"one wrong answer: {outcome.detail}"
        if call.when == "teardown":
            del item.stash[OUTCOME]
            set_scored_reply(ScoredReply())
            is_rerun = ENDED in item.stash and not item.stash[ENDED].lost
            try:
                if not is_rerun:
                    item.stash[ENDED] = outcome
                    self._store(item, joined, outcome, observed, lost=False)
            finally:
                if SPAN in item.stash:
                    item.stash[SPAN].stop(outcome)

    def finish(self, item: pytest.Item, joined: JoinedTest, observed: Callable[..., None] | None) -> None:
        """Store an item that is lost after its last attempt. Raises StoreError."""
        if ENDED in item.stash:
            self._store(item, joined, item.stash[ENDED], observed, lost=True)

    def _store(
        self,
        item: pytest.Item,
        joined: JoinedTest,
        outcome: Outcome,
        observed: Callable[..., None] | None,
        *,
        lost: bool,
    ) -> None:
        # A session that runs one sample, or only estimates, has stored no plan.
        if joined.arms and bool(outcome.lost) == lost:
            store_item(outcome, joined, sample_id(item), self._state.resources.writer, observed)

    def _outcome(self, item: pytest.Item) -> Outcome:
        if OUTCOME not in item.stash:
            joined = self._state.collection.joined[function_nodeid(item)]
            names = [arm.name for arm in joined.plan.arms]
            number = names.index(arm_name(item) or names[0])
            name = sample_id(item)
            unit, sample = Unit(joined.positions[name], 0, number, 0), Sample(id=name, input=name)
            # The calls of a lost attempt were paid for.
            calls = list(item.stash[ENDED].calls) if ENDED in item.stash else []
            item.stash[OUTCOME] = Outcome(unit, started=time.time(), calls=calls, sample=sample)
        return item.stash[OUTCOME]


def settle_outcome(outcome: Outcome, error: BaseException | None) -> Outcome:
    """Record in the outcome how a test item ended; exceptions mean the same as inside an experiment."""
    if error is None or outcome.lost:
        return outcome
    judgement = classify_exception(error)
    if judgement == "skipped":
        outcome.skipped, outcome.detail = True, str(error)
    elif judgement == "failed":
        outcome.failure, outcome.detail = "assertion", (str(error) or type(error).__name__).splitlines()[0]
    else:
        outcome.lost, outcome.detail = lost_reason(error), f"{type(error).__name__}: {error}"
    return outcome


def store_item(
    outcome: Outcome, joined: JoinedTest, sample: str, writer: Writer, on_observation: Callable[..., None] | None
) -> None:
    """Store the observations of one item, and call `on_observation` with each."""
    passed = any(metric.name == "passed" for metric in joined.plan.metrics)
    observations, lost = own_scores(outcome, passed=passed)
    writer.add(outcome, joined.arms[outcome.unit.arm], observations, lost)
    if on_observation is None:
        return
    for observation in observations:
        on_observation(
            nodeid=joined.plan.nodeid,
            arm=joined.plan.arms[outcome.unit.arm].name,
            sample=sample,
            observation=observation,
        )
