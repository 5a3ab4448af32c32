"""The lines of `crucible trace --where` and `--against`: decisions that a search finds, and those that two runs do not share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.decision_steps import steps_of_decisions
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.differences import ChainDifference
from pytest_crucible.features.provenance.load_decisions import Chain
from pytest_crucible.features.provenance.search import Found
from pytest_crucible.features.provenance.step_texts import step_texts
from pytest_crucible.features.provenance.timeline import Step, Timeline
from pytest_crucible.features.provenance.timeline_text import heading
from pytest_crucible.features.provenance.trace_lines import TextLayout, text_lines, title_lines
from pytest_crucible.stats.number_format import quantity

MOST_REPLIES = 20
"""Replies that are listed without -v."""


def found_timelines(run: str, decisions: Sequence[Found]) -> list[Timeline]:
    """Return for each reply a timeline of nothing but the decisions that a search has found."""
    return [
        Timeline(
            run=run,
            experiment=chain.experiment,
            arm=chain.arm,
            sample=chain.sample,
            repeat=chain.repeat,
            variant=chain.variant,
            steps=tuple(_steps_of(chain, [each.decision for each in group])),
        )
        for chain, group in groupby(decisions, lambda each: each.chain)
    ]


def _steps_of(chain: Chain, decisions: Sequence[Decision]) -> Iterator[Step]:
    # Titles and durations of stages depend on the whole chain.
    numbers = {decision.number for decision in decisions}
    steps = zip(chain.decisions, steps_of_decisions(chain.decisions), strict=True)
    return (step for decision, step in steps if decision.number in numbers)


def found_lines(timelines: Sequence[Timeline], run: str, layout: TextLayout) -> Iterator[str]:
    """Yield the decisions that a search has found, by reply, with their numbers in it."""
    steps = [step for timeline in timelines for step in timeline.steps]
    if not steps:
        yield f"no decision of run {run} matches"
        return
    noun = "decision" if all(_is_decision(step) for step in steps) else "event"
    yield f"{quantity(len(steps), noun)} of run {run} in {_replies(len(timelines))}"
    listed = timelines if layout.is_whole else timelines[:MOST_REPLIES]
    for timeline in listed:
        yield from ("", heading(timeline), *_decision_lines(timeline.steps, "", layout))
    yield from _rest(len(timelines) - len(listed))


def _is_decision(step: Step) -> bool:
    """Return whether a step is a decision of the test or a claim of the model, and neither a stage nor observed."""
    return step.kind == "decision" and (step.is_claim or step.facts.get("kind") in kinds.DECISIONS)


def _decision_lines(steps: Sequence[Step], sign: str, layout: TextLayout) -> Iterator[str]:
    for step, texts in zip(steps, step_texts(steps), strict=True):
        first, *more = title_lines(step, layout)
        yield f"{sign}{step.facts['number']:>{5 - len(sign)}}  {first}"
        yield from (f"{sign}{' ' * (7 - len(sign))}{line}" for line in more)
        for name, value in texts:
            yield from text_lines(name, value, layout)


def _replies(count: int) -> str:
    return f"{count:,} replies" if count != 1 else "1 reply"


def _rest(replies: int) -> Iterator[str]:
    if replies > 0:
        yield from ("", f"{_replies(replies)} more: -v lists all")


def difference_lines(
    differences: Sequence[ChainDifference], run: str, against: str, layout: TextLayout
) -> Iterator[str]:
    """Yield the replies whose decisions differ between two runs, the least similar first."""
    unlike = sorted((each for each in differences if each.added or each.removed), key=lambda each: each.similarity)
    equal = len(differences) - len(unlike)
    yield f"run {run} against run {against}: of {len(differences):,} replies with decisions {equal:,} have equal ones"
    listed = unlike if layout.is_whole else unlike[:MOST_REPLIES]
    for each in listed:
        yield from ("", f"{heading(each)}: similarity {each.similarity:.2f}")
        yield from _decision_lines(list(steps_of_decisions(each.added)), "+", layout)
        yield from _decision_lines(list(steps_of_decisions(each.removed)), "-", layout)
    yield from _rest(len(unlike) - len(listed))
