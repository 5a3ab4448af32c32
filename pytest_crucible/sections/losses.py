"""Losses: samples that the world withheld, by reason, and the arms' own failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.records import ArmOutcomes, Claim, Note, Plan, Statement, View
from pytest_crucible.sections.inputs import SectionInputs

_REASONS = {
    "error": "by error",
    "scorer": "by a scorer",
    "member": "of a member's scores",
    "budget": "by the budget",
    "deadline": "by the deadline",
    "uncached": "not in the reply cache",
    "unasked": "not asked",
    "assertion": "by assertion",
    "timeout": "by timeout",
    "truncated": "by truncation",
    "filtered": "by a content filter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Counts by the arm's name."""

    lost: Mapping[str, Mapping[str, int]]
    """Arm -> reason -> count, samples that were never asked among them."""
    failures: Mapping[str, Mapping[str, int]]
    """Arm -> kind of failure -> count. Failures are the candidate's doing, and count as worst scores."""
    first: Mapping[str, Mapping[str, str]]
    """Arm -> reason, or metric that was lost -> first line of the first loss's message."""


def compute(inputs: SectionInputs) -> Losses:
    """Return what was lost and what failed, in every arm."""
    arms = list(zip(inputs.plan.arms, inputs.answers, strict=True))
    return Losses(
        lost={arm.name: _lost(inputs.plan, answers, inputs.samples) for arm, answers in arms},
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
    for arm, reasons in losses.lost.items():
        if reasons:
            details = tuple(f"first: {message}" for message in losses.first[arm].values())
            yield Note(text=f"{arm} lost {_counts(reasons)}", details=details)
        if losses.failures[arm]:
            yield Note(text=f"{arm} failed {_counts(losses.failures[arm])}")


def _counts(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_REASONS.get(reason, reason)}" for reason, count in sorted(reasons.items()))


def _lost(plan: Plan, answers: ArmOutcomes, samples: int) -> dict[str, int]:
    counts = Counter(str(lost.reason) for lost in answers.lost)
    lost_replies = sum(lost.metric is None for lost in answers.lost)
    missing = samples * plan.epochs - len(answers.positions) - lost_replies
    if missing:
        counts["deselected" if plan.selected < plan.planned else "unasked"] += missing
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
