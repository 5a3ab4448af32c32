"""Scoring as the last part of a unit: a metric may ask a model, and the run's deadline ends that as it ends asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pytest_crucible.experiment import Experiment
from pytest_crucible.records import Outcome
from pytest_crucible.sample.deadline import Deadline, cut_off_by
from pytest_crucible.sample.engine import Unit
from pytest_crucible.score.judge import Judged, judge, own_scores
from pytest_crucible.scorers.asked import scoring_for

Ask = Callable[[Unit], Awaitable[Outcome]]


class Scoring:
    """Asks for a unit and judges what came of it; `of` gives what the metrics said, once."""

    def __init__(self, experiment: Experiment, ask: Ask, deadline: Deadline | None) -> None:
        self._experiment = experiment
        self._ask = ask
        self._deadline = deadline
        self._passed = any(one.name == "passed" for one in experiment.plan.metrics)
        self._judged: dict[Unit, Judged] = {}

    async def __call__(self, unit: Unit) -> Outcome:
        """The outcome: a lost one where scoring was cut short. Raises what asking raises, and Refused."""
        return await cut_off_by(self._deadline, await self._ask(unit), self._judge)

    def of(self, outcome: Outcome) -> Judged:
        unit = (outcome.position, outcome.arm, outcome.epoch)
        judged = self._judged.pop(unit, None)
        return own_scores(outcome, passed=self._passed) if outcome.lost or judged is None else judged

    async def _judge(self, outcome: Outcome) -> Outcome:
        sample = self._experiment.dataset.samples[outcome.position]
        scoring_for(self._experiment.plan.nodeid, sample.id, outcome.epoch)
        judged = await judge(outcome, self._experiment.metrics, sample, passed=self._passed)
        self._judged[outcome.position, outcome.arm, outcome.epoch] = judged
        return outcome
