"""The nouns of an experiment: frozen, plain, and made of nothing but JSON scalars, tuples, mappings and each other.

Stages hand these to one another; `wire` turns them into plain JSON and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["candidate", "baseline"]
Kind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded", "text"]
Direction = Literal["higher", "lower"]
State = Literal["met", "missed", "undecided"]
Decision = Literal["point", "bound"]
Alternative = Literal["regression", "non-inferior", "superior", "equivalent"]
Value = bool | float | str


# -- what is measured ---------------------------------------------------------------------------------------------


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
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What to ask: a name from the configuration (or a URI) and how to reach it."""

    name: str
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Where the model is: the backend's own settings."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """How it is sampled: temperature, max_tokens and the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An adapter's part in an experiment. Equal identities (and parameters) are the same checkpoint."""

    name: str
    role: Role
    adapter: str
    identity: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    stored_run: str | None = None
    """The run whose stored answers this arm is, when it was named as `run:ID`."""


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


# -- asking and answering -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one backend."""

    input: Any
    sample: str
    epoch: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer, or any value that the test function returned (then `text` is its string)."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None
    finish: str = "stop"
    """`length` when the answer was cut at max_tokens: a failure of the candidate, not of the world."""
    value: Any = None


# -- what was seen ------------------------------------------------------------------------------------------------

Failure = Literal["assertion", "timeout", "truncated"]
LostReason = Literal["error", "scorer"]


@dataclass(slots=True)
class Outcome:
    """What became of one sample in one arm and epoch. At most one of failure, skipped and lost is set."""

    arm: int
    position: int
    epoch: int
    reply: Reply | None = None
    scores: dict[str, Value | None] = field(default_factory=dict)
    failure: Failure | None = None
    skipped: bool = False
    lost: LostReason | None = None
    detail: str = ""
    started: float = 0.0


@dataclass(frozen=True, slots=True)
class Observation:
    """One metric's value for one reply. None says that the metric does not apply, and `reason` why."""

    arm: int
    position: int
    epoch: int
    metric: str
    value: Value | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that the world withheld: not a zero and not absent. `metric` is None when the whole reply is lost."""

    arm: int
    position: int
    epoch: int
    metric: str | None
    reason: LostReason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreColumns:
    """All values of one metric in one arm, as parallel columns. A value of None does not apply."""

    positions: Sequence[int]
    epochs: Sequence[int]
    values: Sequence[float | None]
    is_bool: Sequence[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All that is known of one arm, as parallel columns over its answered units."""

    positions: Sequence[int]
    epochs: Sequence[int]
    failures: Sequence[Failure | None]
    skipped: Sequence[bool]
    scores: Mapping[str, ScoreColumns]
    lost: Sequence[Lost]
    labels: frozenset[str] = frozenset()
    """Metrics whose values are text."""


# -- what follows from it -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A two-sided interval. `low` and `high` may be infinite; they are never NaN."""

    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One statistic of one metric in one arm. n counts samples (repeats are averaged inside the sample first)."""

    metric: str
    statistic: str
    arm: str
    n: int
    lost: int
    inapplicable: int
    value: float | None
    unconditional: float | None
    """The mean with inapplicable samples at the worst value; None when there are none or no worst value exists."""
    interval: Interval | None
    clusters: int | None
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one set of values says: those observed, or those with the lost ones at an extreme.

    `lower` and `upper` are one-sided bounds at level 1 - alpha each; None where none can be had.
    """

    value: float | None
    lower: float | None
    upper: float | None
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for and against a target or a comparison: as observed, and as bad and as good as the lost allow."""

    observed: Reading
    worst: Reading
    best: Reading
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """A target, the estimate that it is about, and its evidence."""

    target: Target
    estimate: Estimate
    evidence: Evidence
    needed: int | None
    """About how many samples would prove it at this estimate; None when no number would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSize:
    """How large a difference is, on a scale that is customary for the metric's kind. Signed as the difference is."""

    name: str
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Candidate minus baseline on the samples that both arms answered, signed so that positive is better."""

    contrast: Contrast
    candidate: str
    pairs: int
    lost: int
    clusters: int | None
    difference: float | None
    interval: Interval | None
    p_value: float | None
    p_exact: float | None
    method: str
    evidence: Evidence
    detectable: float | None
    """The smallest difference that this many pairs show with 80 % power, given how much pairs differ here."""
    needed: int | None
    """About how many samples would decide at this estimate."""
    effects: tuple[EffectSize, ...] = ()
    """The customary one first. Differences above 0, and ratios above 1, are better."""
    p_adjusted: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """How often a comparison of one metric cried wolf where nothing differed: scores were dealt to two arms at random."""

    metric: str
    dealt: str
    """What was dealt: "v2, 5 repeats", or "v2 and v1, swapped"."""
    samples: int
    left_out: int
    """Samples that lack a score."""
    replicates: int
    alpha: float
    seed: int
    clusters: int | None = None
    method: str = "-"
    rate: float | None = None
    """None where the comparison could not be made at all; `note` says why."""
    interval: Interval | None = None
    holds: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Met, missed or undecided, and whether the data prove it."""

    nodeid: str
    subject: str
    kind: Literal["target", "comparison"]
    state: State
    proven: bool
    reason: str
    mistake: bool = False
    """True when the suite is wrong rather than the model: a target that names what nothing scored. Always fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """A sample worth reading: where the candidate did worst, with what it said."""

    metric: str
    value: float
    baseline_value: float | None
    sample: str = ""
    reply: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused:
    """Stored answers that stood in for new ones: whose, and how many."""

    run: str
    answers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything that was computed for one experiment, before anything is decided."""

    plan: Plan
    estimates: tuple[Estimate, ...]
    targets: tuple[TargetResult, ...]
    comparisons: tuple[Comparison, ...]
    kinds: Mapping[str, str]
    """What each metric is: declared, or inferred from the values of all arms."""
    lost: Mapping[str, Mapping[str, int]]
    """Arm name -> reason -> count."""
    failures: Mapping[str, Mapping[str, int]]
    """Arm name -> the arm's own failures (assertion, timeout, truncated) -> count. They count as worst scores."""
    finished: bool
    """False when sampling was cut short."""
    first_lost: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Arm name -> reason -> what was said of the first one."""
    reused: Mapping[str, Reused] = field(default_factory=dict)
    """Arm name -> the stored answers that stood in for new ones."""
    worst: tuple[Worst, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One session, whole: what the reporters are given."""

    id: str
    started: str
    finished: str
    seed: int
    git: Mapping[str, Any] | None
    environment: Mapping[str, Any]
    alpha: float
    correction: str
    questions: int
    """Comparisons that the session asked, answered or not: the family that p-values are adjusted for."""
    experiments: tuple[Analysis, ...]
    verdicts: tuple[Verdict, ...]
    exit_status: int
    store: str


# -- how an adapter came to be ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """What a training came to, in numbers that can be judged. Losses are nats per counted token."""

    steps: int
    first_loss: float
    """Of the first step."""
    final_loss: float
    """Mean over the last tenth of the steps, since batches differ."""
    loss_reduction: float | None
    """1 - final / first; None where the first loss is not above 0, as that of a policy may be."""
    largest_gradient_norm: float
    gradient_norms_finite: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where a trained adapter comes from: all that decided its weights, and how its training went."""

    adapter_sha256: str
    base: str
    base_sha256: str
    recipe: str
    recipe_sha256: str
    data: Mapping[str, str]
    """SHA-256 of each file that the recipe read."""
    lora: Mapping[str, Any]
    seed: int
    hyperparameters: Mapping[str, Any]
    """All values that steps used of the loss, its settings, the number of rows, and Adam's settings but the learning rate."""
    git: Mapping[str, Any] | None
    parent: str | None
    """SHA-256 of the checkpoint that training went on from."""
    result: TrainingResult
    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    learning_rates: tuple[float, ...]
    seconds: float
    stopped: str | None = None
    """Why training ended before its recipe did; such an adapter is used only where its path is named."""
