"""Losses: samples that the world withheld, by reason, and the arms' own failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.records import ArmOutcomes, Claim, Note, Plan, Statement, View
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import quantity

decides = False  # no claim of it can fail the session

_LABELS = {
    "scorer": "scorer error",
    "member": "ensemble member",
    "unanswered": "no answer",
    "uncached": "not in the reply cache",
    "not_run": "not run",
    "truncated": "truncation",
    "filtered": "content filter",
}
# These reasons lose the score of one metric; the reply is there.
_OF_SCORES = frozenset({"scorer", "member"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Counts by the arm's name."""

    repeats: int = 1
    """Replies a sample: with more than one, replies are counted rather than samples."""
    lost: Mapping[str, Mapping[str, int]]
    """Arm -> reason -> count, samples that were not run among them."""
    failures: Mapping[str, Mapping[str, int]]
    """Arm -> kind of failure -> count. Failures are the candidate's doing, and count as worst scores."""
    first: Mapping[str, Mapping[str, str]]
    """Arm -> reason, or metric that was lost -> first line of the first loss's message."""


def compute(inputs: SectionInputs) -> Losses:
    """Return the lost samples and the failures of every arm."""
    arms = list(zip(inputs.plan.arms, inputs.answers, strict=True))
    return Losses(
        repeats=max(inputs.plan.draws(number).size for number in range(len(arms))),
        lost={
            arm.name: _lost(inputs.plan, answers, inputs.samples * inputs.plan.draws(number).size)
            for number, (arm, answers) in enumerate(arms)
        },
        failures={arm.name: _failures(answers) for arm, answers in arms},
        first={arm.name: _first_messages(answers) for arm, answers in arms},
    )


def claims(losses: Losses) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(losses: Losses, claims: Sequence[Claim]) -> View:
    """Return a note for each arm that lost something, and for each that failed."""
    proof = Statement(text="A verdict is called proven only where it holds whatever the lost values were.")
    return View(
        title="Losses",
        notes=tuple(_notes(losses)),
        methods=(proof,) if any(losses.lost.values()) else (),
        document={"lost": losses.lost, "failures": losses.failures},
    )


def _notes(losses: Losses) -> Iterator[Note]:
    unit = "sample" if losses.repeats == 1 else "reply"
    for arm, reasons in losses.lost.items():
        if reasons:
            scores = {reason: count for reason, count in reasons.items() if reason in _OF_SCORES}
            units = {reason: count for reason, count in reasons.items() if reason not in _OF_SCORES}
            parts = (_counts(units, unit, "lost"), _counts(scores, "score", "lost"))
            details = [f"first: {message}" for message in losses.first[arm].values()]
            if "unanswered" in reasons:
                details.append("--crucible-resume does not send them again; a run without it does")
            yield Note(text=f"{arm}: {', '.join(part for part in parts if part)}", details=tuple(details))
        if losses.failures[arm]:
            yield Note(text=f"{arm}: {_counts(losses.failures[arm], unit, 'failed')}")


def _counts(reasons: Mapping[str, int], unit: str, state: str) -> str:
    """Return `2 samples lost (error)` or `3 samples failed (2 assertion, 1 timeout)`; empty without reasons."""
    if not reasons:
        return ""
    labels = [(_LABELS.get(reason, reason), count) for reason, count in sorted(reasons.items())]
    listed = labels[0][0] if len(labels) == 1 else ", ".join(f"{count:,} {label}" for label, count in labels)
    return f"{quantity(sum(reasons.values()), unit)} {state} ({listed})"


def _lost(plan: Plan, answers: ArmOutcomes, replies: int) -> dict[str, int]:
    counts = Counter(str(lost.reason) for lost in answers.lost)
    lost_replies = sum(lost.metric is None for lost in answers.lost)
    missing = replies - len(answers.positions) - lost_replies
    if missing:
        # Counted by difference: nothing is stored for a unit that was never run.
        counts["deselected" if plan.selected < plan.planned else "not_run"] += missing
    return dict(counts)


def _failures(answers: ArmOutcomes) -> dict[str, int]:
    return dict(Counter(kind for kind in answers.failures if kind is not None))


def _first_messages(answers: ArmOutcomes) -> dict[str, str]:
    messages: dict[str, str] = {}
    for lost in answers.lost:
        if lost.detail:
            # Each metric has an error of its own.
            messages.setdefault(lost.metric or lost.reason, lost.detail.splitlines()[0])
    return messages
