"""What is asked and of whom: samples, adapters, targets, comparisons, and the plan that has them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_crucible.records.lineages import TrainingResult
from pytest_crucible.records.words import Alternative, Decision, Direction, Kind, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question. Its id is stable across runs and machines: arms are paired by it."""

    id: str
    input: Any
    expected: Any = None
    group: str | None = None
    """Samples that share a passage, a repository or a template share a group: they are one cluster."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The samples of one experiment, with the identity that says when two runs asked the same questions."""

    name: str
    sha256: str
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the samples of a dataset come from, so that a run can say which version of it was asked."""

    source: str
    licence: str
    files: Mapping[str, str] = field(default_factory=dict)
    """File -> SHA-256 of it as it was read."""
    official: bool | None = None
    """Whether every file is, byte for byte, the one that was published; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which samples of a dataset are asked, where that is not all."""

    of: int
    """How many the dataset has."""
    seed: int
    """By which `limit` draws."""
    split: str | None = None
    fold: str | None = None
    limit: int | None = None
    stratify: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What to ask: a name from the configuration (or a URI) and how to reach it."""

    name: str
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Where the model is: the backend's own settings."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """How it is sampled: temperature, max_tokens and the like."""
    asking: Mapping[str, Any] = field(default_factory=dict)
    """How it is asked, whichever backend it has: retries, limits, hedges, prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An adapter's part in an experiment. Equal identities (and parameters) are the same checkpoint."""

    name: str
    role: Role
    adapter: str
    identity: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    members: tuple[str, ...] = ()
    """The adapters that answer together, where it is an ensemble."""
    stored_run: str | None = None
    """The run whose stored answers this arm is, when it was named as `run:ID`."""
    training: TrainingResult | None = None
    """How its weights were trained, where that is known. It is no part of what the arm is: the weights are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFacts:
    """What a metric declares about itself. The statistical method follows these, never the scores."""

    name: str
    kind: Kind | None = None
    """None until the first run has shown whether the values are bool or numbers."""
    direction: Direction = "higher"
    low: float = float("-inf")
    high: float = float("inf")
    version: str = ""
    of_ensemble: bool = False
    """Observed along with an ensemble's replies: arms that have none are left out, and no failure is worth the worst value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A quality target such as `rate(entailment >= 0.75) >= 0.45`, parsed."""

    text: str
    statistic: Literal["mean", "rate", "count", "quantile"]
    metric: str
    relation: Literal[">=", "<=", ">", "<", "=="]
    value: float
    quantile: float | None = None
    inner_relation: Literal[">=", "<=", ">", "<", "=="] | None = None
    inner_value: float | None = None
    decide: Decision = "point"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A comparison that was asked for: the candidate against one baseline on one metric."""

    metric: str
    baseline: str
    alternative: Alternative = "regression"
    margin: float | None = None

    def subject(self, candidate: str) -> str:
        """`accuracy: v2 vs v1`, with the claim where one is asked for."""
        claim = "" if self.alternative == "regression" else f" {self.alternative}"
        margin = "" if self.margin is None else f" by {self.margin:g}"
        return f"{self.metric}: {candidate} vs {self.baseline}{claim}{margin}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What must be equal before stored answers may stand in for new ones, part by part, so that a difference has a name."""

    dataset: str
    function: str
    metrics: str
    sampling: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One experiment before it runs: nothing in it depends on an answer."""

    nodeid: str
    path: str
    line: int
    dataset: str
    dataset_sha256: str
    planned: int
    selected: int
    """Below `planned` when -k, -m or --lf removed samples: then no verdict can be given."""
    groups: int | None
    """Number of clusters, or None when no sample carries a group."""
    epochs: int
    arms: tuple[Arm, ...]
    metrics: tuple[MetricFacts, ...]
    targets: tuple[Target, ...]
    contrasts: tuple[Contrast, ...]
    fingerprint: Fingerprint
    open_metrics: bool
    """True when the test function scores by itself, so that metric names are known only after the run."""
    origin: Origin | None = None
    """Of a dataset that is known by its name."""
    selection: Selection | None = None
    by_item: bool = False
    """True for an ordinary parametrised test that joined: each of its items is a sample."""

    @property
    def candidate(self) -> Arm:
        return self.arms[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """What one comparison can show, before it is made, under a stated assumption on how much the arms differ."""

    contrast: Contrast
    detectable: float | None
    unit: str
    """`points` for shares; empty for scores of a known range; words where only multiples of a spread can be foreseen."""
    assumption: str
    needed: int | None
    """Samples that the declared margin needs, when the truth is no difference."""
