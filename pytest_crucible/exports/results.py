"""The results of a run as writers of other formats get them: arm by arm, sample by sample."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Arm, Estimate, MetricFacts, Plan, Run, Sample, StoredCall, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """One arm's result on one sample in one repeat. A metric that does not apply is neither in `scores` nor in `lost`."""

    sample: Sample
    repeat: int
    """Counted from 0."""
    scores: Mapping[str, Value] = field(default_factory=dict)
    """As they count: a failure has the worst value."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why its value is lost."""
    error: str = ""
    """Why the whole reply is lost; empty otherwise."""
    text: str = ""
    calls: Sequence[StoredCall] = ()
    """Of a sample about which the arm was called several times, or has called tools; empty for others."""
    finish: str = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResults:
    """The results of one arm in one experiment."""

    run: str
    task: str
    """The name of the experiment, which no other of the run has."""
    started: str
    finished: bool
    """Whether all samples were run."""
    plan: Plan
    arm: Arm
    facts: Mapping[str, MetricFacts]
    """The facts of each metric, its kind resolved."""
    estimates: Sequence[Estimate]
    repeats: int
    """Of each sample, over prompts, trainings and rounds."""
    sample_ids: Sequence[str]
    read: Callable[[], Iterator[SampleResult]]
    """Reads the results, sample by sample."""

    @property
    def key(self) -> str:
        """A text that no other arm of any run has."""
        return json.dumps([self.run, self.plan.nodeid, self.arm.name])

    def numeric(self) -> list[str]:
        """Return the metrics whose values are numbers."""
        return [name for name, facts in self.facts.items() if facts.kind != "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """A stored run, with its results."""

    run: Run
    arms: Callable[[], Iterable[ArmResults]]
    html: Callable[[], str]
    """Renders the HTML report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file or run that a writer has written: its place, its number of results, and what the format cannot hold."""

    place: str
    results: int
    noun: str = "result"
    notes: tuple[str, ...] = ()


class WriteResults(Protocol):
    """A writer of one format. It takes the folder of `-o`, or None where none was named."""

    def __call__(self, results: RunResults, folder: Path | None) -> Iterator[Written]: ...


# A file name has at most 255 bytes, and some have several such parts.
_LONGEST = 80


def safe_name(text: str) -> str:
    """Return a text as the name of a file on any system.

    >>> safe_name("imported::sums"), safe_name("openai/v2"), safe_name("...")
    ('imported-sums', 'openai-v2', 'unnamed')
    """
    name = re.sub(r"[^\w.-]+", "-", text).strip("-.") or "unnamed"
    # A hash, so that two long names with one beginning are two files.
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def as_text(value: Any) -> str:
    """Return a text as it is, and another value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
