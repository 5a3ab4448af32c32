"""A note on an experiment that is larger than memory: what is left out of its analysis and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Note, View
from pytest_crucible.sections.inputs import SectionInputs, no_claims

decides = False  # no claim of it can fail the session
claims = no_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeRun:
    """The number of replies, and what is left out because of it."""

    replies: int
    most_in_memory: int
    sections: tuple[str, ...]
    without_doubts_of: tuple[str, ...]
    """Those of the sections that could have failed the run."""


def compute(inputs: SectionInputs) -> LargeRun | None:
    """Return what is left out; None for an experiment that is analysed in memory."""
    if not inputs.counts:
        return None
    replies = sum(inputs.plan.count_replies(number) for number in range(len(inputs.plan.arms)))
    return LargeRun(
        replies=replies,
        most_in_memory=inputs.most_in_memory,
        sections=inputs.left_out,
        without_doubts_of=inputs.without_doubts_of,
    )


def view(large: LargeRun, claims: Sequence[Claim]) -> View:
    """Return the note."""
    sections = f", and the sections {', '.join(large.sections)}" if large.sections else ""
    text = (
        f"{large.replies:,} replies, more than {large.most_in_memory:,}, were analysed in batches: effect sizes, the search for "
        f"neighbours that resemble each other, suggested reaches and some plans of a next run are left out{sections}"
    )
    if large.without_doubts_of:
        text += f"; {', '.join(large.without_doubts_of)}, which can fail a run by its doubts, has checked nothing here"
    return View(title="Large run", notes=(Note(text=text),), document=asdict(large))
