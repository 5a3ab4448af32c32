"""Count how often the candidate was compared with the same baseline. Each rerun is another chance of a wrong verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.records import Claim, Contrast, Look, Note, View
from pytest_crucible.sections.inputs import SectionInputs

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A comparison that earlier sessions made as well."""

    metric: str
    """The measure, as the comparison names it."""
    candidate: str
    baseline: str
    """Empty for a target."""
    comparison: int
    """The number of this comparison: 2 for the first rerun."""
    with_new_replies: int
    """How many of the comparisons brought new replies."""
    since: str
    """The day of the first comparison."""
    look: int | None = None
    """The number of the look at the replies of all sessions; None if this session decides alone."""
    replies: tuple[int, ...] | None = None
    """The number of replies in all sessions, of the candidate and then of the baseline."""
    level: float | None = None
    """The level of its interval."""
    sessions: tuple[int, ...] | None = None
    """How many sessions brought replies of the candidate, and then of the baseline."""
    is_fixed: bool = False
    """Whether rounds are declared fixed, so that claims are about these sessions alone."""


def compute(inputs: SectionInputs) -> tuple[Rerun, ...] | None:
    """Return the comparisons that were made before; None if each is the first of its kind."""
    return tuple(_reruns(inputs)) or None


def claims(reruns: Sequence[Rerun]) -> Sequence[Claim]:
    """Return nothing: a count is not a claim."""
    return ()


def view(reruns: Sequence[Rerun], claims: Sequence[Claim]) -> View:
    """Return a note for each history; measures with the same one share a note."""
    counts = (_sentence(rerun) for rerun in reruns if rerun.baseline and rerun.since)
    sentences = [*counts, *filter(None, map(_pool_sentence, reruns))]
    return View(
        title="Reruns", notes=tuple(Note(text=sentence) for sentence in dict.fromkeys(sentences)), document=list(reruns)
    )


def _reruns(inputs: SectionInputs) -> Iterator[Rerun]:
    if not inputs.finished or inputs.plan.selected < inputs.plan.planned:
        return
    for contrast in inputs.plan.contrasts:
        past = inputs.stored.past_comparisons(contrast) if contrast.decides else ()
        if past or contrast in inputs.looks:
            yield Rerun(
                metric=contrast.expression,
                candidate=inputs.plan.candidate.name,
                baseline=contrast.baseline,
                comparison=len(past) + 1,
                with_new_replies=sum(any(one.has_new_replies) for one in past) + _is_new(inputs, contrast),
                since=past[0].started[:10] if past else "",
                **_look_fields(inputs, inputs.looks.get(contrast)),
            )

    for target, look in inputs.target_looks.items():
        yield Rerun(
            metric=target.text,
            candidate=inputs.plan.candidate.name,
            baseline="",
            comparison=look.number,
            with_new_replies=look.number,
            since=look.since[:10],
            **_look_fields(inputs, look),
        )


def _look_fields(inputs: SectionInputs, look: Look | None) -> dict[str, Any]:
    if look is None:
        return {}
    return {
        "look": look.number,
        "replies": look.replies,
        "level": 1 - 2 * look.alpha(inputs.alpha),
        "sessions": look.sessions,
        "is_fixed": "rounds" in inputs.plan.fixed,
    }


def _is_new(inputs: SectionInputs, contrast: Contrast) -> bool:
    baseline = [arm.name for arm in inputs.plan.arms].index(contrast.baseline)
    return inputs.stored.has_new_replies(0) or inputs.stored.has_new_replies(baseline)


def _sentence(rerun: Rerun) -> str:
    """Return the sentence with the number of comparisons so far.

    >>> _sentence(Rerun(metric="ok", candidate="v2", baseline="v1", comparison=7, with_new_replies=3, since="2026-11-02"))
    'v1: comparison 7 of v2 with this baseline since 2026-11-02; 3 of the 7 with new replies'
    """
    count = f"comparison {rerun.comparison:,} of {rerun.candidate} with this baseline since {rerun.since}"
    old = rerun.comparison - rerun.with_new_replies
    return f"{rerun.baseline}: {count}" + (
        f"; {rerun.with_new_replies:,} of the {rerun.comparison:,} with new replies" if old else ""
    )


def _pool_sentence(rerun: Rerun) -> str:
    """Return a sentence on the replies that decide the comparison; empty if this session decides alone."""
    if rerun.replies is None or rerun.level is None:
        return ""
    names = (rerun.candidate, rerun.baseline)
    counts = ", ".join(f"{count:,} of {name}" for count, name in zip(rerun.replies, names, strict=False))
    bound = (
        f"one-sided bound is at {(1 + rerun.level) / 2:.2%}"
        if not rerun.baseline
        else f"interval is at {rerun.level:.2%}"
    )
    where = "this session" if rerun.look == 1 else "the replies of all sessions"
    looked = f"look {rerun.look}, so {'its' if not rerun.baseline else 'the'} {bound}".replace("%", " %")
    return f"{rerun.metric}: decided on {where} ({counts}); {looked}{_noise_text(rerun)}"


def _noise_text(rerun: Rerun) -> str:
    """Return how the noise between sessions is counted, if it is."""
    if rerun.sessions is None:
        return ""
    if rerun.is_fixed:
        return "; rounds are fixed, so it is about these sessions alone"
    if max(rerun.sessions, default=1) == 1:
        return "; noise between sessions is not counted, because there is one"
    names = (rerun.candidate, rerun.baseline)
    single = [name for name, count in zip(names, rerun.sessions, strict=False) if count == 1]
    uncounted = f"; not that of {single[0]}, whose replies are of one session" if single else ""
    return f"; noise between {max(rerun.sessions)} sessions is counted{uncounted}"
