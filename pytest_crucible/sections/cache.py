"""Replies that this run did not request: those reused from an earlier run, and those from the reply cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible.records import Arm, CachedReplies, Claim, Note, Plan, ReusedReplies, View
from pytest_crucible.sections.inputs import SectionInputs

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class OldAnswers:
    """Origins of the reused and cached replies of each arm, by its name."""

    plan: Plan
    reused: Mapping[str, ReusedReplies]
    cached: Mapping[str, CachedReplies]


def compute(inputs: SectionInputs) -> OldAnswers | None:
    """Return the replies that were not requested by this run; None if there are none."""
    reused, cached = inputs.stored.reused_replies(), inputs.stored.cached_replies()
    return OldAnswers(plan=inputs.plan, reused=reused, cached=cached) if reused or cached else None


def claims(answers: OldAnswers) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(answers: OldAnswers, claims: Sequence[Claim]) -> View:
    """Return a note for each arm with reused or cached replies."""
    return View(
        title="Reused replies",
        notes=tuple(note for arm in answers.plan.arms for note in _notes(answers, arm)),
        document={"reused": answers.reused, "cached": answers.cached},
    )


def _notes(answers: OldAnswers, arm: Arm) -> Iterator[Note]:
    reused, cached = answers.reused.get(arm.name), answers.cached.get(arm.name)
    # The name of a stored run's arm already names its run.
    if reused is not None and reused.replies and arm.stored_run is None:
        total = answers.plan.count_replies(answers.plan.arms.index(arm))
        how = "; --crucible-fresh calls the model again" if arm.role == "baseline" else ""
        yield Note(text=f"{arm.name}: {reused.replies:,} of {total:,} replies reused from run {reused.run}{how}")
    if cached is not None:
        yield Note(
            text=f"{arm.name}: {cached.replies:,} of {cached.requests:,} replies from the reply cache (since "
            f"{cached.since[:10]}), with their original latency and cost; --crucible-cache=refresh calls the model again"
        )
