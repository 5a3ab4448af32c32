"""Stages of a run: sample sizes at which a session looks before it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_crucible.records.plan import PlanValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage: the experiments' samples until its number, in look order."""

    name: str
    samples: int | None = None
    """Number of samples, those of earlier stages included; None for all of them."""


StageEnd = Literal["", "miss", "out of reach", "until"]
"""Why a session ends after or within a stage; empty if it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDecision:
    """The decision at the end of a stage, or within it: whether the session goes on."""

    stage: int
    """From 0, among the stages of the configuration."""
    end: StageEnd = ""
    nodeid: str = ""
    """The experiment whose claim ends the session."""
    subject: str = ""
    """The target or the comparison that ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """The progress of one experiment of a session with stages."""

    decision: StageDecision
    """The decision that ended the session; without an `end` it reached the last stage."""
    lengths: tuple[int, ...]
    """The number of samples of each stage, those of earlier stages included."""
    replies: tuple[int, ...]
    """The number of replies, of all arms, to the samples that each stage added."""
    samples: int
    """The samples that the results rest on."""
    alpha: float
    """The error rate of all claims of the session together at this stage."""
    ended: str = ""
    """Why the session ended before the last stage, in the words of verdicts; empty if it did not."""
    out_of_reach: tuple[str, ...] = ()
    """The texts of the targets that could not be met any more."""


STAGES = PlanValue[tuple[Stage, ...]]("stages", tuple[Stage, ...], ())
"""The stages of the session; empty if all samples are sent at once."""
FIRST_STAGE = PlanValue[int]("first_stage", int, 0)
"""The stage at which the experiment begins."""
