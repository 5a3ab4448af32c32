"""A stored experiment sample by sample: what was asked and answered, and the numbers of all samples side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_crucible.records.statistics import Interval

Became = Literal["answered", "failed", "lost", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one arm said to one sample in one repeat, or why it did not."""

    epoch: int
    became: Became
    text: str
    detail: str
    """Of a failure or a loss: its class, and what was told of it."""
    latency_s: float | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One sample: what was asked, and for each arm, in the order of the arms, what it said in each repeat."""

    position: int
    input: Any
    expected: Any
    said: tuple[tuple[Said, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleColumns:
    """Numbers of all samples of an experiment, as parallel columns in the dataset's order. NaN where there is none."""

    ids: Sequence[str]
    groups: Sequence[str | None]
    scores: Mapping[str, tuple[Sequence[float], ...]]
    """Metric -> arm -> mean over the repeats."""
    latency_s: tuple[Sequence[float], ...]
    """Arm -> mean over the repeats, in seconds."""
    became: tuple[Sequence[Became], ...]
    """Arm -> the worst that became of a repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One group of samples by one metric: the candidate's mean, and its difference to the first baseline where there is one."""

    metric: str
    group: str
    n: int
    lost: int
    """Of the candidate."""
    value: float | None
    interval: Interval | None
    pairs: int | None
    difference: float | None
    difference_interval: Interval | None
