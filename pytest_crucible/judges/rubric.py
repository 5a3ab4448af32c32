"""A judge that reads one answer and says which level of a rubric it reaches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.judges.asking import NOBODY, beside, said_once, version_of
from pytest_crucible.judges.verdicts import DATA, closing, tagged, verdict_of
from pytest_crucible.metrics.definition import Metric, NotApplicable, declared_facts, metric
from pytest_crucible.records import HUMAN, Reply, Sample
from pytest_crucible.scorers.configured import judge


def rubric(
    name: str, question: str, *, levels: Mapping[str, float], reference: bool = False, human: str | None = None
) -> Metric:
    """A metric whose value is that of the level which the judge gives, from 0 to 1.

    `levels` are names and their values; `question` says what is judged, and when a level is reached. With `reference` the
    judge sees what the sample expects. `human` names a key of the sample's metadata with the level that a person gave this
    very reply: then the report tells how far the judge agrees. Raises SpecError for levels that are none.
    """
    _check(name, question, levels)
    task = (question, DATA, "Levels: " + ", ".join(levels))

    async def level(reply: Reply, sample: Sample) -> str:
        asked = judge()
        assert asked is not None
        expected = [tagged("reference", _text(sample.expected))] if reference and sample.expected is not None else []
        shown = (tagged("question", _text(sample.input)), *expected, tagged("answer", reply.text))
        return verdict_of(await asked.ask("\n\n".join((*task, *shown, closing(levels)))), levels)

    once = said_once(level)

    async def value(reply: Reply, sample: Sample) -> float | NotApplicable:
        return NOBODY if judge() is None else float(levels[await once(reply, sample)])

    value.__doc__ = f"The level that the judge gives: {', '.join(levels)}."
    facts = declared_facts(name, bounds=(0, 1))
    depends = version_of("rubric", *task, sorted(levels.items()), reference)
    return Metric(function=value, facts=facts, depends=depends, beside=_beside(name, human, levels, once, depends))


def _beside(name: str, human: str | None, levels: Mapping[str, float], once: Any, depends: Any) -> tuple[Metric, ...]:
    if human is None:
        return ()

    @metric(name=f"{name}{HUMAN}", kind="text")
    async def labels(reply: Reply, sample: Sample) -> str | NotApplicable:
        """The judge's level and a person's, as a JSON list."""
        given = sample.metadata.get(human)
        if given is None or judge() is None:
            return NotApplicable(f"the sample has no {human!r} in its metadata") if given is None else NOBODY
        if given not in levels:
            raise ValueError(
                f"sample {sample.id!r} has {human} = {given!r}, which is no level of {name!r}: {', '.join(levels)}"
            )
        return await beside(once, reply, sample, lambda said: [said, given])

    return (Metric(function=labels.function, facts=labels.facts, depends=depends),)


def _text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)


def _check(name: str, question: str, levels: Mapping[str, float]) -> None:
    if not question.strip():
        raise SpecError(f"rubric {name!r} has no question: say what the judge is to judge")
    if not isinstance(levels, Mapping) or len(levels) < 2 or len({str(one).casefold() for one in levels}) < len(levels):
        raise SpecError(f'rubric {name!r} needs two levels or more, as levels={{"poor": 0, "good": 1}}')
    for level, value in levels.items():
        if not isinstance(level, str) or not level.strip() or "\n" in level:
            raise SpecError(f"rubric {name!r} has the level {level!r}: a level's name is a word or a few on one line")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise SpecError(f"rubric {name!r} has {level!r}: {value!r}: a level is worth a number from 0 to 1")
