"""A stored experiment sample by sample: prompts and replies, and the numbers of all samples as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

OutcomeState = Literal["answered", "failed", "lost", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmReply:
    """One arm's reply to one sample in one repeat, or the reason why it is missing."""

    repeat: int
    state: OutcomeState
    text: str
    detail: str
    """The class of a failure or loss, and its message."""
    latency_s: float | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One sample, and for each arm, in the order of the arms, its reply in each repeat."""

    position: int
    input: Any
    expected: Any
    replies: tuple[tuple[ArmReply, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleColumns:
    """Numbers of all samples of an experiment, as parallel columns in the dataset's order. A missing number is NaN."""

    ids: Sequence[str]
    groups: Sequence[str | None]
    scores: Mapping[str, tuple[Sequence[float], ...]]
    """Metric -> arm -> mean over the repeats."""
    latency_s: tuple[Sequence[float], ...]
    """Arm -> mean over the repeats, in seconds."""
    states: tuple[Sequence[OutcomeState], ...]
    """Arm -> the worst state of a sample's repeats."""
    expected: Sequence[Any] = ()
    """The samples' `expected`, where a statistic of the plan uses it."""
    replies: Mapping[str, tuple[Sequence[Sequence[float]], ...]] = field(default_factory=dict)
    """Metric -> arm -> a row of single replies for each sample, where a sample has several."""
