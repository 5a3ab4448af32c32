"""Runs one sample alone, for --crucible-sample: nothing is stored and no verdict is given."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import pytest

from pytest_crucible.metrics.models.scorers import set_current_reply
from pytest_crucible.records import Lost, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.report.printable import AN_ID, printable
from pytest_crucible.sample.loop import BackgroundLoop, DaemonThreads
from pytest_crucible.score import Scored, score_outcome
from pytest_crucible.session.call import Call
from pytest_crucible.session.experiment import Experiment


def run_single_sample(item: pytest.Function, experiment: Experiment, position: int, loop: BackgroundLoop) -> list[str]:
    """Run one sample of the candidate in the main thread, where a debugger works; return the requests, the reply and the scores.

    Raises the test's own exception.
    """
    call = Call.prepare(item, experiment, loop, DaemonThreads(1))
    outcome = Outcome(Unit(position, 0, 0, 0))
    arguments = call.arguments(outcome)
    sample = experiment.dataset.samples[position]

    def score_returned(returned: Any) -> Coroutine[Any, Any, Scored]:
        if isinstance(returned, Reply):
            outcome.reply = returned
        elif returned is not None:
            outcome.reply = Reply(text=str(returned), value=returned)
        set_current_reply(experiment.plan.nodeid, sample.id, outcome.unit.repeat)
        return score_outcome(
            outcome,
            experiment.metrics,
            sample,
            passed=False,
            reasoning=experiment.reasoning,
            further=experiment.further_scores,
        )

    async def call_and_score() -> Scored:
        return await score_returned(await call.function(**arguments))

    if experiment.is_async:
        scored = asyncio.run(call_and_score())
    else:
        scored = loop.submit(score_returned(call.function(**arguments))).result()
    return list(_lines(sample, outcome.reply, *scored))


def _lines(
    sample: Sample, reply: Reply | None, observations: Sequence[Observation], lost: Sequence[Lost]
) -> Iterator[str]:
    yield f"sample   {printable(sample.id, AN_ID)}"
    yield f"input    {sample.input}"
    yield f"expected {sample.expected}"
    if reply is not None:
        yield f"reply    {reply.text}"
    for observation in observations:
        reason = f" ({observation.reason})" if observation.reason else ""
        yield f"{observation.metric} = {observation.value}{reason}"
    for loss in lost:
        yield f"{loss.metric} lost: {loss.detail}"
