"""Reasoning: replies whose text begins with it, and answers with marks of an unknown form, which are scored as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding, text_of
from pytest_crucible.records.reasoning import answer_span
from pytest_crucible.records.unknown_reasoning import find_unknown_mark, may_have_marks
from pytest_crucible.stats.number_format import quantity


class ReasoningCounts(NamedTuple):
    """The replies of one arm with reasoning in their text, and those with a mark of an unknown form."""

    replies: int
    reasoning: int
    unknown: int
    mark: str
    """The first mark of an unknown form; empty without one."""


def check_reasoning(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on reasoning in the text of replies, if there is any."""
    counts = [count_reasoning(_scored_texts(inputs, columns)) for columns in inputs.arms]
    if not any(each.reasoning or each.unknown for each in counts):
        return
    is_scored = inputs.plan.fingerprint.reasoning == "keep"
    problems = [] if is_scored else [
        _sentence(columns.arm.name, each) for columns, each in zip(inputs.arms, counts, strict=True) if each.unknown
    ]  # fmt: skip
    yield Finding(
        check="reasoning",
        cells=tuple(_describe(each) for each in counts),
        differs="unknown form" if problems else "",
        problem="; ".join(problems),
        document=[each._asdict() for each in counts],
    )


def _scored_texts(inputs: CheckInputs, columns: ArmColumns) -> Iterator[str]:
    replies = columns.replies
    keys = [key for key, failure in zip(replies.texts, replies.failures, strict=True) if not failure]
    long_texts = inputs.section.stored.long_texts({key for key in keys if isinstance(key, bytes)})
    return (text_of(key, long_texts) for key in keys)


def count_reasoning(texts: Iterable[str]) -> ReasoningCounts:
    """Return how many replies have reasoning in their text, in a known form or with a mark of an unknown one."""
    replies, reasoning = 0, 0
    marks = []
    for text in texts:
        replies += 1
        if not may_have_marks(text):
            continue
        start, end = answer_span(text)
        reasoning += start > 0
        if mark := find_unknown_mark(text[start:end]):
            marks.append(mark)
    return ReasoningCounts(replies, reasoning, len(marks), marks[0] if marks else "")


def _describe(counts: ReasoningCounts) -> str:
    cell = f"{counts.reasoning:,} of {quantity(counts.replies, 'reply')}"
    return f"{cell}, {counts.unknown:,} in an unknown form" if counts.unknown else cell


def _sentence(name: str, counts: ReasoningCounts) -> str:
    verb = "has" if counts.unknown == 1 else "have"
    return (
        f"{counts.unknown:,} of {quantity(counts.replies, 'reply')} of {name} {verb} a mark of reasoning in an unknown form, "
        f"such as {counts.mark}: it is scored with the answer; cut it off in the test, or let the server send reasoning apart"
    )
