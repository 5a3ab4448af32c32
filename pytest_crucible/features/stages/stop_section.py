"""Stopping: the last look of a run with --crucible-stop, and the method of its intervals."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Note, Statement, View
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import quantity

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The last look of an experiment."""

    samples: int
    """The samples that verdicts rest on."""
    planned: int
    alpha: float
    """The error rate of each claim."""


def compute(inputs: SectionInputs) -> Stop | None:
    """Return the last look; None for a run without looks."""
    if inputs.looked_at is None or inputs.plan.look_alpha is None:
        return None
    return Stop(samples=len(inputs.looked_at), planned=inputs.samples, alpha=inputs.plan.look_alpha)


def claims(stop: Stop) -> Sequence[Claim]:
    """Return nothing: the verdicts are claims of the experiment."""
    return ()


def view(stop: Stop, claims: Sequence[Claim]) -> View:
    """Return a note with the number of samples, and the method."""
    of = quantity(stop.planned, "sample")
    early = f"stopped after {stop.samples:,} of {of}: all verdicts are settled"
    whole = f"all {of} were needed: some verdict is not settled"
    method = Statement(
        text="Intervals are confidence sequences by betting (Waudby-Smith & Ramdas 2024), over samples in the order of a hash of "
        f"their ids: they hold at every look. Each claim has an error rate of {stop.alpha:.3g}."
    )
    return View(
        title="Stopping",
        notes=(Note(text=early if stop.samples < stop.planned else whole),),
        methods=(method,),
        document=stop,
    )
