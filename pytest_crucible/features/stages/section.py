"""Stages: the samples and replies of each, the end of the session, and the error rates."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.features.stages.definition import FIRST_STAGE, STAGES
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, Row, Statement, Table, View
from pytest_crucible.sections.inputs import SectionInputs

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage of one experiment."""

    name: str
    samples: int
    """Those of the stage, with those of earlier stages."""
    replies: int
    """Replies of all arms to the samples that the stage added."""
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of one experiment."""

    nodeid: str
    stages: tuple[StageRow, ...]
    ended: str
    """Why the session ended before the last stage; empty if it did not."""
    alpha: float
    """The error rate of all claims of the session together at this stage."""


def compute(inputs: SectionInputs) -> Stages | None:
    """Return the stages; None for a run without any."""
    progress = inputs.of_features.get("stages")
    if progress is None:
        return None
    rows = [
        StageRow(name=stage.name, samples=length, replies=replies, state=_state(inputs, number, replies))
        for number, (stage, length, replies) in enumerate(
            zip(STAGES.of(inputs.plan), progress.lengths, progress.replies, strict=True)
        )
    ]
    return Stages(nodeid=inputs.plan.nodeid, stages=tuple(rows), ended=progress.ended, alpha=progress.alpha)


def claims(stages: Stages) -> Sequence[Claim]:
    """Return nothing: the verdicts are claims of the experiment."""
    return ()


def view(stages: Stages, claims: Sequence[Claim]) -> View:
    """Return why the session ended, and a table of the stages."""
    table = Table(
        title="Stages",
        heads=("stage", "samples", "new replies", "state"),
        rows=tuple(
            Row(cells=(stage.name, f"{stage.samples:,}", f"{stage.replies:,}", stage.state)) for stage in stages.stages
        ),
        numbers=("samples", "new replies"),
        note=stages.ended,
        verbosity=1,
    )
    method = Statement(
        text="Samples were sent stage by stage in the order of a hash of their ids. All claims of the session share an error rate "
        f"of {stages.alpha:.3g} at the stage where it ended, and of alpha over all stages (Bonferroni); intervals have that level."
    )
    return View(title="Stages", tables=(table,), methods=(method,), document=stages)


def _state(inputs: SectionInputs, number: int, replies: int) -> str:
    progress = inputs.of_features.get("stages")
    if number < FIRST_STAGE.of(inputs.plan):
        return f"begins at {STAGES.of(inputs.plan)[FIRST_STAGE.of(inputs.plan)].name}"
    if progress is None or not progress.decision.end:
        return "complete" if inputs.finished else "interrupted" if replies else "not begun"
    if number < progress.decision.stage or (
        number == progress.decision.stage and progress.decision.end != "out of reach"
    ):
        return "complete" if inputs.finished else "interrupted"
    return "ended within" if replies else "not begun"
