"""Scoring as the last part of a unit: a metric may query a model, so the run's deadline applies to scoring, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pytest_crucible.metrics.models.attribution import set_current_reply
from pytest_crucible.records import Outcome, Unit
from pytest_crucible.sample.deadline import Deadline, cut_off_by
from pytest_crucible.score.apply import Scored, own_scores, score_outcome
from pytest_crucible.session.experiment import Experiment

Ask = Callable[[Unit], Awaitable[Outcome]]


class ScoredUnits:
    """Runs a unit and scores its outcome; `pop_scores` returns the scores, once."""

    def __init__(self, experiment: Experiment, ask: Ask, deadline: Deadline | None) -> None:
        self._experiment = experiment
        self._ask = ask
        self._deadline = deadline
        self._passed = any(metric.name == "passed" for metric in experiment.plan.metrics)
        self._scores: dict[Unit, Scored] = {}

    async def __call__(self, unit: Unit) -> Outcome:
        """Return the outcome: lost if scoring was cut short. Raises what the request raises, and Refused."""
        return await cut_off_by(self._deadline, await self._ask(unit), self._score)

    def pop_scores(self, outcome: Outcome) -> Scored:
        scores = self._scores.pop(outcome.unit, None)
        return own_scores(outcome, passed=self._passed) if outcome.lost or scores is None else scores

    async def _score(self, outcome: Outcome) -> Outcome:
        sample = self._experiment.dataset.samples[outcome.unit.position]
        set_current_reply(self._experiment.plan.nodeid, sample.id, outcome.unit.repeat)
        scores = await score_outcome(outcome, self._experiment.metrics, sample, passed=self._passed)
        self._scores[outcome.unit] = scores
        return outcome
