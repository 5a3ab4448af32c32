"""ArmOutcomes that are not new: those of an earlier run, and replies from the reply cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.records import Arm, CachedReplies, Claim, Note, Plan, ReusedAnswers, View
from pytest_crucible.sections.inputs import SectionInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class OldAnswers:
    """Origins of the answers of each arm, by its name."""

    plan: Plan
    reused: Mapping[str, ReusedAnswers]
    cached: Mapping[str, CachedReplies]


def compute(inputs: SectionInputs) -> OldAnswers | None:
    """Return the answers that are not new; None where all are."""
    reused, cached = inputs.stored.reused_answers(), inputs.stored.cached_replies()
    return OldAnswers(plan=inputs.plan, reused=reused, cached=cached) if reused or cached else None


def claims(answers: OldAnswers) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(answers: OldAnswers, claims: Sequence[Claim]) -> View:
    """Return a note for each arm with answers that are not new."""
    return View(
        title="ArmOutcomes that are not new",
        notes=tuple(note for arm in answers.plan.arms for note in _notes(answers, arm)),
        document={"reused": answers.reused, "cached": answers.cached},
    )


def _notes(answers: OldAnswers, arm: Arm) -> Iterator[Note]:
    reused, cached = answers.reused.get(arm.name), answers.cached.get(arm.name)
    # an arm named as a stored run says so by its name
    if reused is not None and arm.stored_run is None:
        total = answers.plan.selected * answers.plan.epochs
        how = "; --crucible-fresh asks anew" if arm.role == "baseline" else ""
        yield Note(text=f"{reused.answers:,} of {total:,} answers of {arm.name} are those of run {reused.run}{how}")
    if cached is not None:
        yield Note(
            text=f"{cached.replies:,} of {cached.requests:,} replies of {arm.name} are from the reply cache (since "
            f"{cached.since[:10]}), with the latency and cost of then; --crucible-cache=refresh asks anew"
        )
