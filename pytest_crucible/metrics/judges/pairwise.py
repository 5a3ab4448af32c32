"""An LLM judge that compares two answers, in both orders, so that a preference for a position cancels."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pytest_crucible.metrics.definition import Metric, NotApplicable, declared_facts, metric
from pytest_crucible.metrics.judges.prompting import (
    NO_JUDGE_CONFIGURED,
    judge_once,
    judge_version,
    request_verdict,
    side_value,
)
from pytest_crucible.metrics.judges.verdicts import DATA, closing_lines, wrap_in_tags
from pytest_crucible.metrics.models.registry import judge
from pytest_crucible.metrics.text import NO_EXPECTED
from pytest_crucible.records import ORDERS, Reply, Sample
from pytest_crucible.records.errors import SpecError

NAMES = ("first", "second", "tie")
# Value of a verdict for the answer that is shown first.
AS_FIRST = {"first": 1.0, "second": 0.0, "tie": 0.5}
Other = Callable[[Sample], str | None]


def pairwise(name: str, question: str, *, against: str | None = None) -> Metric:
    """Return a metric that compares the reply with another answer in both orders.

    It is 1 if the judge prefers the reply in both, 0 if it prefers the other answer in both, else 1/2.

    The other answer is the expected one, or with `against` the one under that key of the sample's metadata. It is the same for
    all arms, so that their rates can be compared. The report shows how far the judge prefers a position. Raises SpecError
    without a question.
    """
    if not question.strip():
        raise SpecError(f"pairwise metric {name!r} has no question: write in which respect an answer should be better")
    task = (question, DATA)

    async def orders(reply: Reply, sample: Sample) -> tuple[float, float]:
        """Return the value of the reply when it is shown first, and when it is shown second."""
        other = str(_other(sample, against))
        as_first = _query(task, sample, reply.text, other)
        as_second = _query(task, sample, other, reply.text)
        # Both orders at once: they are independent requests.
        first, second = await asyncio.gather(as_first, as_second)
        return AS_FIRST[first], 1 - AS_FIRST[second]

    once = judge_once(orders)

    async def preference(reply: Reply, sample: Sample) -> float | NotApplicable:
        if (reason := _not_applicable(sample, against)) is not None:
            return reason
        first, second = await once(reply, sample)
        # Orders that disagree show a preference for a position, which is not one for an answer.
        return first if first == second else 0.5

    async def order_values(reply: Reply, sample: Sample) -> str | NotApplicable:
        """The value of the reply when shown first and when shown second, as a JSON list."""
        return _not_applicable(sample, against) or await side_value(once, reply, sample, lambda values: list(values))

    preference.__doc__ = "1 where the judge prefers the reply in both orders, 0 the other answer, else 1/2."
    depends = judge_version("pairwise", *task, against)
    order_facts = metric(name=f"{name}{ORDERS}", kind="text")(order_values)
    order_metric = Metric(function=order_values, facts=order_facts.facts, depends=depends)
    return Metric(
        function=preference, facts=declared_facts(name, bounds=(0, 1)), depends=depends, beside=(order_metric,)
    )


def _other(sample: Sample, against: str | None) -> Any:
    return sample.expected if against is None else sample.metadata.get(against)


def _not_applicable(sample: Sample, against: str | None) -> NotApplicable | None:
    """Return why the metric does not apply; None if it does."""
    if judge() is None:
        return NO_JUDGE_CONFIGURED
    if _other(sample, against) is None:
        return NO_EXPECTED if against is None else NotApplicable(f"the sample has no {against!r} in its metadata")
    return None


async def _query(task: tuple[str, ...], sample: Sample, first: str, second: str) -> str:
    configured = judge()
    assert configured is not None
    question = (
        sample.input if isinstance(sample.input, str) else json.dumps(sample.input, ensure_ascii=False, default=str)
    )
    answers = wrap_in_tags((("question", question), ("first", first), ("second", second)))
    return await request_verdict(configured, "\n\n".join((*task, *answers, closing_lines(NAMES))), NAMES)
