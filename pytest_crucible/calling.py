"""One call of a test function: what it is given, and what its exceptions mean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_crucible.contenders import Contender
from pytest_crucible.errors import StoreError
from pytest_crucible.experiment import Experiment
from pytest_crucible.records import MetricFacts, Outcome, Reply, Value
from pytest_crucible.sample.asking import Judgement, ask_async, ask_in_thread, needs_reply
from pytest_crucible.sample.deadline import Deadline, ask_before
from pytest_crucible.sample.engine import Unit
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.sample.sampler import BlockingSampler, Sampler
from pytest_crucible.sample.threads import DaemonThreads
from pytest_crucible.score.judge import Judged, checked, judge
from pytest_crucible.scorers.asked import scoring_for


def classify(error: BaseException) -> Judgement:
    """What an exception inside a test function means for its sample."""
    if isinstance(error, pytest.skip.Exception):
        return "skipped"
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return "failed"
    if isinstance(error, StoreError | pytest.exit.Exception) or not isinstance(error, Exception):
        return "stop"
    return "lost"


class Scorer:
    """What a test scores by itself with: `score(accuracy=True)`."""

    __slots__ = ("_facts", "_scores")

    def __init__(self, scores: dict[str, Value | None], facts: Mapping[str, MetricFacts]) -> None:
        self._scores = scores
        self._facts = facts

    def __call__(self, **scores: Any) -> None:
        """Record one value a name: bool, a number, None where the metric does not apply, or a str as a label.

        Raises ValueError for what is no score; the sample is then lost.
        """
        for name, given in scores.items():
            undeclared = MetricFacts(name=name, kind="text" if isinstance(given, str) else None)
            try:
                self._scores[name], _ = checked(given, self._facts.get(name, undeclared))
            except ValueError as error:
                raise ValueError(f"score({name}=...) {str(error).replace('returned', 'was given', 1)}") from error


@dataclass
class Call:
    """One call of an experiment's function for one unit."""

    experiment: Experiment
    function: Callable[..., Any]
    fixtures: Mapping[str, Any]
    wanted: frozenset[str]
    facts: Mapping[str, MetricFacts]
    loop: BackgroundLoop
    threads: DaemonThreads
    deadline: Deadline | None = None
    over: Callable[[str, int, str], None] | None = None
    """Told of sample, repeat and arm when a unit is over, where anybody wants to know."""

    @classmethod
    def of(
        cls,
        item: pytest.Function,
        experiment: Experiment,
        loop: BackgroundLoop,
        threads: DaemonThreads,
        deadline: Deadline | None = None,
        over: Callable[[str, int, str], None] | None = None,
    ) -> Call:
        return cls(
            experiment=experiment,
            function=experiment.bound(item),
            fixtures=experiment.arguments(item),
            wanted=experiment.injected,
            facts={one.name: one for one in experiment.plan.metrics},
            loop=loop,
            threads=threads,
            deadline=deadline,
            over=over,
        )

    def arguments(self, outcome: Outcome) -> dict[str, Any]:
        """The function's fixtures, and what is bound anew: sample, sampler, score."""
        given = dict(self.fixtures)
        sample = self.experiment.dataset.samples[outcome.position]
        if "sample" in self.wanted:
            given["sample"] = sample
        if "sampler" in self.wanted:
            given["sampler"] = self._sampler(self.experiment.contenders[outcome.arm], sample.id, outcome.epoch)
        if "score" in self.wanted:
            given["score"] = Scorer(outcome.scores, self.facts)
        return given

    def _sampler(self, contender: Contender, sample: str, epoch: int) -> Sampler | BlockingSampler:
        if contender.backend is None:
            raise RuntimeError(f"arm {contender.arm.name!r} has no backend")  # planning refuses such an experiment
        sampler = Sampler(contender.backend, contender.arm, sample, epoch, self.experiment.plan.nodeid)
        return sampler if self.experiment.is_async else BlockingSampler(sampler, self.loop.loop)

    async def __call__(self, unit: Unit) -> Outcome:
        position, arm, epoch = unit
        try:
            return await ask_before(self.deadline, Outcome(arm, position, epoch), self._ask)
        finally:
            if self.over is not None:
                self.over(self.experiment.dataset.samples[position].id, epoch, self.experiment.plan.arms[arm].name)

    async def _ask(self, outcome: Outcome) -> Outcome:
        arguments = self.arguments(outcome)
        timeout_s = self.experiment.timeout_s
        if self.experiment.is_async:
            await ask_async(self.function, arguments, outcome, timeout_s=timeout_s, classify=classify)
        else:
            try:
                await ask_in_thread(
                    self.function, arguments, outcome, timeout_s=timeout_s, classify=classify, threads=self.threads
                )
            finally:
                _close(arguments.get("sampler"))
        if self.experiment.metrics and outcome.reply is None:
            needs_reply(outcome, self.experiment.dataset.samples[outcome.position], self.function.__name__)
        return outcome


def _close(sampler: Sampler | BlockingSampler | None) -> None:
    """A thread that was left behind asks nothing more."""
    if isinstance(sampler, BlockingSampler):
        sampler.close()


def alone(item: pytest.Function, experiment: Experiment, position: int, loop: BackgroundLoop) -> list[str]:
    """Run one sample of the candidate in the main thread, so that its traceback and a debugger are the user's own.

    Nothing is stored and nothing judged; the lines say what was asked, answered and scored. Raises what the test raises.
    """
    call = Call.of(item, experiment, loop, DaemonThreads(1))
    outcome = Outcome(0, position, 0)
    arguments = call.arguments(outcome)
    sample = experiment.dataset.samples[position]

    def scored(returned: Any) -> Coroutine[Any, Any, Judged]:
        if isinstance(returned, Reply):
            outcome.reply = returned
        elif returned is not None:
            outcome.reply = Reply(text=str(returned), value=returned)
        scoring_for(experiment.plan.nodeid, sample.id, outcome.epoch)
        return judge(outcome, experiment.metrics, sample, passed=False)

    async def asked() -> Judged:
        return await scored(await call.function(**arguments))

    if experiment.is_async:
        observations, lost = asyncio.run(asked())
    else:
        observations, lost = loop.submit(scored(call.function(**arguments))).result()
    lines = [f"sample   {sample.id}", f"input    {sample.input}", f"expected {sample.expected}"]
    lines += [f"reply    {outcome.reply.text}"] if outcome.reply else []
    lines += [f"{one.metric} = {one.value}{f' ({one.reason})' if one.reason else ''}" for one in observations]
    return lines + [f"{one.metric} lost: {one.detail}" for one in lost]
