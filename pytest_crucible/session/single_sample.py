"""Runs one sample of the candidate alone, for --crucible-sample."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import pytest

from pytest_crucible.metrics.models.scorers import ScoredReply, reset_scored_reply, set_scored_reply
from pytest_crucible.records import Lost, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.report.printable import AN_ID, printable
from pytest_crucible.sample.loop import BackgroundLoop, DaemonThreads
from pytest_crucible.score import Scored, score_outcome
from pytest_crucible.session.call import BoundFunction, Call
from pytest_crucible.session.experiment import Experiment


def run_single_sample(item: pytest.Function, experiment: Experiment, position: int, loop: BackgroundLoop) -> list[str]:
    """Run one sample of the candidate in the main thread, where a debugger works; return the requests, the reply and the scores.

    Raises the test's own exception.
    """
    call = Call(item, experiment, loop, DaemonThreads(1))
    outcome = Outcome(Unit(position, 0, 0, 0))
    bound = call.bind(outcome)
    sample = experiment.dataset.samples[position]
    scored_reply = ScoredReply(
        experiment.plan.nodeid, sample.id, calls=outcome.calls, feature_rows=outcome.feature_rows
    )
    token = set_scored_reply(scored_reply)
    try:
        if not loop.submit(bound.unit.open()).result():
            raise pytest.fail.Exception(outcome.detail, pytrace=False)
        run = _run_async if experiment.is_async else _run_in_main_thread
        return list(_lines(sample, outcome, *run(bound, outcome, sample, loop)))
    finally:
        reset_scored_reply(token)


def _run_async(bound: BoundFunction, outcome: Outcome, sample: Sample, loop: BackgroundLoop) -> Scored:
    async def call_and_score() -> Scored:
        try:
            _keep_returned(outcome, await bound(**bound.arguments))
        finally:
            await asyncio.wrap_future(loop.submit(bound.unit.close()))
        return await _score_single(bound, outcome, sample)

    return asyncio.run(call_and_score())


def _run_in_main_thread(bound: BoundFunction, outcome: Outcome, sample: Sample, loop: BackgroundLoop) -> Scored:
    try:
        _keep_returned(outcome, bound(**bound.arguments))
    finally:
        loop.submit(bound.unit.close()).result()
    return loop.submit(_score_single(bound, outcome, sample)).result()


def _keep_returned(outcome: Outcome, returned: Any) -> None:
    if isinstance(returned, Reply):
        outcome.reply = returned
    elif returned is not None:
        outcome.reply = Reply(text=str(returned), value=returned)


def _score_single(bound: BoundFunction, outcome: Outcome, sample: Sample) -> Coroutine[Any, Any, Scored]:
    experiment = bound.unit.experiment
    return score_outcome(
        outcome,
        experiment.metrics,
        sample,
        passed=False,
        reasoning=experiment.reasoning,
        further=experiment.further_scores,
    )


def _lines(
    sample: Sample, outcome: Outcome, observations: Sequence[Observation], lost: Sequence[Lost]
) -> Iterator[str]:
    yield f"sample   {printable(sample.id, AN_ID)}"
    yield f"input    {sample.input}"
    yield f"expected {sample.expected}"
    if outcome.reply is not None:
        yield f"reply    {outcome.reply.text}"
    for observation in observations:
        reason = f" ({observation.reason})" if observation.reason else ""
        yield f"{observation.metric} = {observation.value}{reason}"
    for loss in lost:
        yield f"{loss.metric or 'the sample is'} lost: {loss.detail}"
