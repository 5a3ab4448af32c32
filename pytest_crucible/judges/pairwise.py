"""A judge that reads two answers and says which is better, once with each of them first: what it prefers for its place cancels."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.judges.asking import NOBODY, beside, said_once, version_of
from pytest_crucible.judges.verdicts import DATA, closing, tagged, verdict_of
from pytest_crucible.metrics.definition import Metric, NotApplicable, declared_facts, metric
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import ORDERS, Reply, Sample
from pytest_crucible.scorers.configured import judge

NAMES = ("first", "second", "tie")
AS_FIRST = {"first": 1.0, "second": 0.0, "tie": 0.5}
"""What a verdict says of the answer that is shown first."""
Other = Callable[[Sample], str | None]


def pairwise(name: str, question: str, *, against: str | None = None) -> Metric:
    """A metric that is 1 where the judge prefers the reply to another answer in both orders, 0 where it prefers the other,
    and 1/2 for ties and where the orders disagree.

    The other answer is what the sample expects, or with `against` what its metadata has under that key: one for all arms, so
    that their rates can be compared. The report tells how far the judge prefers a place. Raises SpecError without a question.
    """
    if not question.strip():
        raise SpecError(f"pairwise metric {name!r} has no question: say in what an answer is to be better")
    task = (question, DATA)

    async def orders(reply: Reply, sample: Sample) -> tuple[float, float]:
        """How the reply fares when it is shown first, and when it is shown second."""
        other = str(_other(sample, against))
        as_first = _ask(task, sample, reply.text, other)
        as_second = _ask(task, sample, other, reply.text)
        first, second = await asyncio.gather(as_first, as_second)
        return AS_FIRST[first], 1 - AS_FIRST[second]

    once = said_once(orders)

    async def preferred(reply: Reply, sample: Sample) -> float | NotApplicable:
        if (nothing := _nothing(sample, against)) is not None:
            return nothing
        first, second = await once(reply, sample)
        return first if first == second else 0.5

    async def places(reply: Reply, sample: Sample) -> str | NotApplicable:
        """How the reply fares when it is shown first and when second, as a JSON list."""
        return _nothing(sample, against) or await beside(once, reply, sample, lambda said: list(said))

    preferred.__doc__ = "1 where the judge prefers the reply in both orders, 0 the other answer, else 1/2."
    depends = version_of("pairwise", *task, against)
    told = metric(name=f"{name}{ORDERS}", kind="text")(places)
    along = Metric(function=places, facts=told.facts, depends=depends)
    return Metric(function=preferred, facts=declared_facts(name, bounds=(0, 1)), depends=depends, beside=(along,))


def _other(sample: Sample, against: str | None) -> Any:
    return sample.expected if against is None else sample.metadata.get(against)


def _nothing(sample: Sample, against: str | None) -> NotApplicable | None:
    """Why nothing can be said, where nothing can."""
    if judge() is None:
        return NOBODY
    if _other(sample, against) is None:
        return NO_EXPECTED if against is None else NotApplicable(f"the sample has no {against!r} in its metadata")
    return None


async def _ask(task: tuple[str, ...], sample: Sample, first: str, second: str) -> str:
    asked = judge()
    assert asked is not None
    question = (
        sample.input if isinstance(sample.input, str) else json.dumps(sample.input, ensure_ascii=False, default=str)
    )
    shown = (tagged("question", question), tagged("first", first), tagged("second", second))
    return verdict_of(await asked.ask("\n\n".join((*task, *shown, closing(NAMES)))), NAMES)
