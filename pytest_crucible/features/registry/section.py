"""Count the candidates that were measured on the same samples, where a registered version is an arm.

Each candidate is another chance to pass by luck, and the samples that choose among many are no longer new to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.features.registry.records import is_numbered
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Note, View
from pytest_crucible.sections.inputs import SectionInputs, no_claims
from pytest_crucible.stats.number_format import ordinal, quantity

decides = False  # no claim of it can fail the session
claims = no_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateCount:
    """The number of candidates that were measured on these samples so far, this one included."""

    candidate: str
    number: int
    samples: int
    alpha: float
    """The error rate at which this run is decided, which an era lowers with each run."""


def compute(inputs: SectionInputs) -> CandidateCount | None:
    """Return the count; None for the first candidate, and where no arm is a registered version."""
    arms = inputs.plan.arms
    if not any(is_numbered(arm.name) for arm in arms):
        return None
    number = inputs.stored.candidates_on_samples()
    if number < 2:
        return None
    return CandidateCount(candidate=arms[0].name, number=number, samples=inputs.samples, alpha=inputs.alpha)


def view(count: CandidateCount, claims: Sequence[Claim]) -> View:
    """Return a sentence with the count."""
    sentence = (
        f"{count.candidate}: {ordinal(count.number)} candidate on these {quantity(count.samples, 'sample')}, "
        f"decided at alpha {count.alpha:.2g}"
    )
    return View(title="Candidates", notes=(Note(text=sentence),), document=count)
