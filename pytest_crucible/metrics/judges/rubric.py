"""An LLM judge that assigns one level of a rubric to an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from pytest_crucible.metrics.models.attribution import current_reply
from pytest_crucible.metrics.models.registry import judge
from pytest_crucible.records import CLEAN, HUMAN, Reply, Sample
from pytest_crucible.records.errors import SpecError


def rubric(
    name: str, question: str, *, levels: Mapping[str, float], reference: bool = False, human: str | None = None
) -> Metric:
    """Return a metric with the value, from 0 to 1, of the level that the judge assigns.

    `levels` are names and their values; `question` describes the quality to judge and each level. With `reference` the
    judge sees the expected answer. `human` is a key of the sample's metadata with the level that a person assigned to this
    very reply: then the report shows how far the judge agrees. Labels of replies to variants, too, are a mapping:
    {"clean": "good", "homoglyph": "poor"}. Raises SpecError for invalid levels.
    """
    _check(name, question, levels)
    task = (question, DATA, "Levels: " + ", ".join(levels))

    async def level(reply: Reply, sample: Sample) -> str:
        configured = judge()
        assert configured is not None
        expected = [("reference", _text(sample.expected))] if reference and sample.expected is not None else []
        parts = wrap_in_tags([("question", _text(sample.input)), *expected, ("answer", reply.text)])
        return await request_verdict(configured, "\n\n".join((*task, *parts, closing_lines(levels))), levels)

    verdict_for = judge_once(level)

    async def value(reply: Reply, sample: Sample) -> float | NotApplicable:
        return NO_JUDGE_CONFIGURED if judge() is None else float(levels[await verdict_for(reply, sample)])

    value.__doc__ = f"The level that the judge assigns: {', '.join(levels)}."
    facts = declared_facts(name, bounds=(0, 1))
    depends = judge_version("rubric", *task, sorted(levels.items()), reference)
    return Metric(
        function=value, facts=facts, depends=depends, beside=_human_metric(name, human, levels, verdict_for, depends)
    )


def _human_metric(
    name: str, human: str | None, levels: Mapping[str, float], verdict_for: Any, depends: Any
) -> tuple[Metric, ...]:
    if human is None:
        return ()

    @metric(name=f"{name}{HUMAN}", kind="text")
    async def labels(reply: Reply, sample: Sample) -> str | NotApplicable:
        """The judge's level, a person's, and the value of the person's, as a JSON list."""
        human_level = _own_label(sample.metadata.get(human), current_reply().variant)
        if human_level is None or judge() is None:
            return (
                NotApplicable(f"the sample has no {human!r} of this reply in its metadata")
                if human_level is None
                else NO_JUDGE_CONFIGURED
            )
        if human_level not in levels:
            raise ValueError(
                f"sample {sample.id!r} has {human} = {human_level!r}, which is not a level of {name!r}: "
                f"write one of {', '.join(levels)}"
            )
        return await side_value(verdict_for, reply, sample, lambda verdict: [verdict, human_level, levels[human_level]])

    return (Metric(function=labels.function, facts=labels.facts, depends=depends),)


def _own_label(label: Any, variant: str) -> Any:
    """Return a person's label of the reply to a variant, or to the original sample; None without one.

    A plain label belongs to one reply: the one to the original sample.
    """
    if isinstance(label, Mapping):
        return label.get(variant or CLEAN)
    return None if variant else label


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _check(name: str, question: str, levels: Mapping[str, float]) -> None:
    if not question.strip():
        raise SpecError(f"rubric {name!r} has no question: write what the judge should judge")
    if (
        not isinstance(levels, Mapping)
        or len(levels) < 2
        or len({str(label).casefold() for label in levels}) < len(levels)
    ):
        raise SpecError(f'rubric {name!r} needs at least two levels, for example levels={{"poor": 0, "good": 1}}')
    for level, value in levels.items():
        if not isinstance(level, str) or not level.strip() or "\n" in level:
            raise SpecError(
                f"rubric {name!r} has the level {level!r}: write a level's name as one or a few words on one line"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise SpecError(
                f"rubric {name!r} has {level!r}: {value!r}; expected a number from 0 to 1 as the level's value"
            )
