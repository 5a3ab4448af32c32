"""Samples, adapters, targets, comparisons, and the plan that holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.records.amounts import amount_text
from pytest_crucible.records.contamination import ArmOverlap
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.expected_decisions import AppliesTo
from pytest_crucible.records.factors import FACTORS, Draws
from pytest_crucible.records.robustness import Robustness, VariantGroup
from pytest_crucible.records.serialize import FORMER_NAME
from pytest_crucible.records.slices import By, short_name
from pytest_crucible.records.stages import Stage
from pytest_crucible.records.sweeps import Sweep
from pytest_crucible.records.training import TrainingResult
from pytest_crucible.records.types import Alternative, DecisionRule, Direction, Kind, Purpose, Relation, Role
from pytest_crucible.records.variants import NoTwin, PlannedVariant, Twin


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample. Its id is stable across runs and machines: arms are paired by it."""

    id: str
    input: Any
    expected: Any = None
    group: str | None = None
    """Samples that share a passage, a repository or a template share a group: they are one cluster."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Twin | NoTwin] = field(default_factory=dict)
    """Its twins by the name of their variant (`records.variants`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The samples of one experiment, with a hash that is equal for two runs on the same samples."""

    name: str
    sha256: str
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source of a dataset, so that a run can name the version that it used."""

    source: str
    licence: str
    files: Mapping[str, str] = field(default_factory=dict)
    """File -> SHA-256 of it as it was read."""
    official: bool | None = None
    """True when every file is, byte for byte, the published one; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected part of a dataset, where it is not the whole."""

    of: int
    """Number of samples in the whole dataset."""
    seed: int
    """The seed with which `limit` draws."""
    split: str | None = None
    fold: str | None = None
    limit: int | None = None
    stratify: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A model: a name from the configuration (or a URI) and the settings to reach it."""

    name: str
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The backend's own settings: where the model is."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters: temperature, max_tokens and the like."""
    asking: Mapping[str, Any] = field(default_factory=dict)
    """Settings of requests, whichever backend it has: retries, limits, hedges, prices."""
    trained_on: tuple[str, ...] = ()
    """Declared training files, relative to the configuration. They change no reply."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Values for test functions: `prompt` is the argument of that name, the others are `sampler.variables`."""
    guard: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of guards: `before` those that read requests, `after` those that read replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTraining:
    """One of several trainings of a recipe that are an arm together."""

    name: str
    """The name of its adapter, such as `v2-seed1`."""
    seed: int
    identity: str
    result: TrainingResult | None = None


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
    """The run whose stored replies this arm is, when it was named as `run:ID`."""
    training: TrainingResult | None = None
    """The training of its weights, where it is known. It is not part of the arm's identity: the weights are."""
    step: int | None = None
    """The step of this training whose weights these are, where its recipe kept them before the end."""
    trainings: tuple[ArmTraining, ...] = ()
    """The trainings that answer each sample in turn, where its adapter has `seeds`; empty for one model."""
    trained_on: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 -> name of each file that it was trained on, as far as that is known or declared."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's variables, as they were written. They are part of the identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFacts:
    """Facts that a metric declares. The statistical method follows these, never the scores."""

    name: str
    kind: Kind | None = None
    """None until the first run has shown whether the values are bool or numbers."""
    direction: Direction = "higher"
    is_directed: bool = True
    """False where nothing shows which direction is better: differences are candidate minus baseline, without a verdict."""
    low: float = float("-inf")
    high: float = float("inf")
    version: str = ""
    is_conditional: bool = False
    """It is about a part of the samples by its definition, such as attacks: reports do not remark that it applies to no others."""
    applies_to: AppliesTo | None = None
    """The samples that it is about, where their expected decision says so; None for all."""
    is_part: bool = False
    """A part of another metric, such as the number of spans found: statistics use it, and reports do not list it."""
    of_ensemble: bool = False
    """Observed along with an ensemble's replies: arms that have none are left out, and no failure is worth the worst value."""
    relevant: float | None = None
    """The smallest difference of its mean that matters, where the metric declares one."""
    relevant_is_share: bool = False
    """The relevant difference is a share of a ratio: 0.1 was written as "10 %"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTerm:
    """A metric on the twins of a variant, as a target or a comparison names it: `exact_match[she]`."""

    facts: MetricFacts
    """Its own facts; its name is the whole term."""
    metric: str
    view: str
    """Empty for the metric's own values."""
    variant: str
    """As it is written in brackets: a variant, or a group of several."""
    group: VariantGroup | None = None
    """The variants that it names together; None for one."""

    @property
    def variants(self) -> tuple[str, ...]:
        return (self.variant,) if self.group is None else self.group.variants


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One statistic of one or several metrics: `accuracy`, `rate(entailment >= 0.75)`, `ece(confidence, accuracy)`."""

    statistic: str = "mean"
    """The name of a row in `stats.measures.table`."""
    metric: str
    quantile: float | None = None
    """Between 0 and 1, for a statistic that is spelled with a percentage, such as `p95`."""
    inner_relation: Relation | None = None
    inner_value: float | None = None
    further: tuple[str, ...] = ()
    """Metrics after the first."""
    written: str = ""
    """The metric as it is written, where the statistic is of its parts: `pii` of `pii.found` and `pii.annotated`."""
    by: By | None = None
    """The fields whose slices are compared, or of which `slice` is one."""
    slice: str = ""
    """The slice that a comparison is about; empty where it is about all samples, or all slices together."""
    slice_size: int = 0
    """The number of samples in that slice."""

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.metric, *self.further)

    @property
    def label(self) -> str:
        """The statistic without its metric: `mean`, `rate >= 0.75`, `p95`, `ece vs accuracy`."""
        if self.written:
            return self.statistic
        function = self.statistic if self.quantile is None else f"p{self.quantile * 100:g}"
        return " ".join([function, *self._condition, *(f"vs {name}" for name in self.further), *self._by])

    @property
    def expression(self) -> str:
        """The measure as a target or a comparison names it; a mean is its metric alone."""
        if self.statistic == "mean":
            return " ".join([self.metric, *self._by])
        if self.written:
            return f"{self.statistic}({self.written})"
        function = self.statistic if self.quantile is None else f"p{self.quantile * 100:g}"
        inner = ", ".join([" ".join([self.metric, *self._condition]), *self.further])
        return f"{function}({' '.join([inner, *self._by])})"

    @property
    def _condition(self) -> list[str]:
        return [] if self.inner_relation is None else [f"{self.inner_relation} {self.inner_value:g}"]

    @property
    def _by(self) -> list[str]:
        if self.by is None:
            return []
        return [f"{self.by} = {short_name(self.slice)}" if self.slice else str(self.by)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Measure):
    """A quality target such as `rate(entailment >= 0.75) >= 0.45`, parsed."""

    text: str
    relation: Relation
    value: float
    decide: DecisionRule = "point"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast(Measure):
    """A comparison of the candidate with one baseline by one measure."""

    baseline: str
    alternative: Alternative = "regression"
    margin: float | None = None
    is_relative: bool = False
    """The margin, or the relevant difference, is a share of a ratio: 0.1 was written as "10 %"."""
    relevant: float | None = None
    """The smallest difference that matters to a regression gate. A margin says the same of other claims: never both."""

    @property
    def limit(self) -> float | None:
        """The margin or the relevant difference on the scale of the decision: for a ratio, the scale of logarithms."""
        amount = self.relevant if self.margin is None else self.margin
        # 10 % more and its inverse are equally far from no difference.
        return math.log1p(amount) if amount is not None and self.is_relative else amount

    @property
    def limit_text(self) -> str:
        """The margin, or the relevant difference, as it is shown: `0.05`, or `10 %`; empty without one."""
        return amount_text(self.relevant if self.margin is None else self.margin, self.is_relative)

    @property
    def decides(self) -> bool:
        """Return whether a verdict is given. An estimate has none, and no part in the session's error rate."""
        return self.alternative != "estimate"

    @property
    def shares_alpha(self) -> bool:
        """Return whether its p-value decides, and so belongs to the session's Holm family.

        One-sided bounds decide margins. Margins must all hold, which needs no correction (Berger 1982).
        """
        return self.decides and self.margin is None

    def subject(self, candidate: str) -> str:
        """`accuracy: v2 vs v1`, with the claim, the margin and the relevant difference where the comparison has them."""
        claim = "" if self.alternative in ("regression", "estimate") else f" {self.alternative}"
        margin = "" if self.margin is None else f" by {self.limit_text}"
        relevant = "" if self.relevant is None else f" (relevant {self.limit_text})"
        return f"{self.expression}: {candidate} vs {self.baseline}{claim}{margin}{relevant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Hashes that must be equal before stored replies may stand in for new ones, part by part, so that a difference has a name."""

    dataset: str
    function: str
    metrics: str
    sampling: str
    reasoning: str = ""
    """The setting `crucible_reasoning`; empty where no metric is applied, and in runs from before there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm:
    """One form of the prompt: a file, by the name that the marker gives it."""

    name: str
    sha256: str
    """The hash of its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Samples that no verdict may depend on, with the reason: each verdict is decided again without them."""

    reason: str
    """What the samples did, as it reads after "the 69 that": `match train.jsonl`."""
    sample_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One experiment before it runs: nothing in it depends on a reply."""

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
    repeats: int = field(metadata={FORMER_NAME: "epochs"})
    """Replies of one model to one sample in one form of the prompt, over all rounds."""
    arms: tuple[Arm, ...]
    metrics: tuple[MetricFacts, ...]
    targets: tuple[Target, ...]
    contrasts: tuple[Contrast, ...]
    fingerprint: Fingerprint
    open_metrics: bool
    """True when the test function scores by itself, so that metric names are known only after the run."""
    origin: Origin | None = None
    """The origin of a named dataset."""
    selection: Selection | None = None
    by_item: bool = False
    """True for an ordinary parametrised test that joined: each of its items is a sample."""
    rounds: int = 1
    """Whole repetitions, one after the other: repeat k belongs to round k // (repeats / rounds)."""
    prompts: tuple[PromptForm, ...] = ()
    """Forms of the prompt: every sample is sent with each of them; empty if the test has its own prompt."""
    arm_prompts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the text of the variable `prompt` by arm, or by member of a family; empty where the adapters have none."""
    variants: tuple[PlannedVariant, ...] = ()
    """Named variants of the samples: each is sent beside the samples as they are."""
    variant_terms: tuple[VariantTerm, ...] = ()
    """What targets and comparisons use of the variants."""
    variant_metrics: tuple[MetricFacts, ...] = ()
    """Metrics that only variants have."""
    robustness: Robustness | None = None
    """The attacks among the variants; None without any."""
    not_run: Mapping[str, str] = field(default_factory=dict)
    """Terms on variants that are not run, with the reason why their verdicts are undecided."""
    fixed: tuple[str, ...] = ()
    """Factors whose levels claims are about; the others are random."""

    purpose: Purpose = "gate"

    look_alpha: float | None = None
    """The error rate of each claim where the run may stop at any look (--crucible-stop); None for one without looks."""
    stages: tuple[Stage, ...] = ()
    """The stages of the session; empty where all samples are sent at once."""
    first_stage: int = 0
    """The stage at which the experiment begins."""

    checks: tuple[CheckResult, ...] = ()
    """The results of its data checks. One that failed keeps the experiment from sending anything."""
    overlaps: tuple[ArmOverlap, ...] = ()
    """The samples that arms were trained on, where training files are known."""

    sweep: Sweep | None = None
    """The sweep whose winner is the candidate."""
    chosen_among: int = 1
    """The number of members that the candidate was chosen among on these same samples: claims hold for all of them at once."""
    chooses: bool = False
    """True for the choosing half of a sweep: its arms are the members, and it gives no verdict."""

    exclusions: tuple[Exclusion, ...] = ()
    """Samples without which each verdict is decided again."""

    @property
    def candidate(self) -> Arm:
        return self.arms[0]

    @property
    def failed_check(self) -> CheckResult | None:
        """The first data check that failed; None where the experiment may be sent."""
        return next((result for result in self.checks if result.state == "failed"), None)

    @property
    def random_factors(self) -> tuple[str, ...]:
        """Factors with several levels whose noise every interval counts."""
        tables = [self.draws(number) for number in range(len(self.arms))]
        return tuple(
            name for name in FACTORS if name not in self.fixed and any(getattr(table, name) > 1 for table in tables)
        )

    def draws(self, arm: int) -> Draws:
        """Return the table of replies that each sample has in an arm."""
        return Draws(
            prompts=max(len(self.prompts), 1),
            trainings=max(len(self.arms[arm].trainings), 1),
            rounds=self.rounds,
            repeats=self.repeats // self.rounds,
        )

    @property
    def facts(self) -> Mapping[str, MetricFacts]:
        """The facts of each metric, and of each term that names a variant, by name."""
        return {facts.name: facts for facts in (*self.metrics, *(term.facts for term in self.variant_terms))}

    @property
    def variant_numbers(self) -> range:
        """The numbers of all variants: the forms of the prompt of the samples as they are, and those of their twins."""
        return range(max(len(self.prompts), 1) * (1 + len(self.variants)))

    def count_replies(self, arm: int) -> int:
        """Return the number of replies that an arm is planned to give, variants included."""
        return self.draws(arm).size * (self.selected + sum(variant.samples for variant in self.variants))

    def variant_name(self, twin: int) -> str:
        """Return the name of a variant by the number of its twins; empty for 0, the samples as they are."""
        return self.variants[twin - 1].name if twin else ""

    def draw_text(self, arm: int, place: int) -> str:
        """Name an arm's reply to a sample by its place, such as `terse.txt, round 2`; empty if there is one reply."""
        table = self.draws(arm)
        levels = table.levels(place)
        words = [self.variant_name(table.twin_at(place))] if place >= table.size else []
        words += [self.prompts[levels.prompts].name] if self.prompts else []
        words += [
            f"{name.removesuffix('s')} {getattr(levels, name) + 1}"
            for name in ("trainings", "rounds", "repeats")
            if getattr(table, name) > 1
        ]
        return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableEffect:
    """The smallest difference that a comparison can show, under a stated assumption on how much the arms differ."""

    contrast: Contrast
    detectable: float | None
    unit: str
    """`points` for shares, `ratio` for the logarithm of a ratio, and empty for scores of a known range."""
    assumption: str
    needed: int | None
    """Samples that the declared margin needs, when the arms are truly equal; or that resolve the relevant difference."""
    unprovable: str = ""
    """The reason why no number of samples proves anything, and what to do; empty if some number does."""
