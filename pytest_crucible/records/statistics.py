"""What follows from the answers: estimates, evidence, comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_crucible.records.questions import Contrast, Target


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
class FindingTally:
    """How often the antagonist found one thing in the replies of an arm, and how right it was."""

    arm: str
    name: str
    severities: Mapping[str, int]
    """Severity -> findings that count, the gravest first."""
    explained: int
    """Findings that another one explains, and that therefore do not count."""
    rate: Estimate
    """Share of the samples that have it, explained or not."""
    precision: Estimate | None
    """Share of those that count which a person found as well; None where no sample has gold flags."""
    recall: Estimate | None
    """Share of those that a person found which were found, explained or not."""


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

    @property
    def weakest_p_value(self) -> float | None:
        """Of a difference whatever the lost would have been; None where they could turn it around, or leave none."""
        readings = (self.observed, self.worst, self.best)
        values = [one.value for one in readings if one.value is not None]
        p_values = [one.p_value for one in readings if one.p_value is not None]
        is_one_way = all(value > 0 for value in values) or all(value < 0 for value in values)
        return max(p_values) if len(p_values) == len(values) == len(readings) and is_one_way else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """A target, the estimate that it is about, and its evidence."""

    target: Target
    estimate: Estimate
    evidence: Evidence
    needed: int | None
    """About how many samples would prove it at this estimate; None when no number would."""
    note: str = ""
    """Of a number of the training: what it rests on, or why there is none."""


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
class Share:
    """A share of samples, or a correlation over them, with its interval; None where these samples have none."""

    value: float | None
    interval: Interval | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPair:
    """How two members of an ensemble err, on the samples that both answered."""

    first: str
    second: str
    n: int
    disagreement: Share
    """One is right and the other wrong."""
    double_fault: Share
    """Both are wrong."""
    error_correlation: Share
    """Phi: 0 when they err independently, 1 when they err on the same samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """An ensemble beside its members, by one metric of right and wrong, on the samples that all of them answered."""

    arm: str
    metric: str
    n: int
    accuracies: Mapping[str, Share]
    """Of each member, by its name; empty where no sample was answered by all."""
    best: str | None
    """The most accurate member. It was chosen by these samples, which flatters it."""
    oracle: Share
    """Some member is right: what a perfect choice between them would reach."""
    ensemble: Share
    pairs: tuple[MemberPair, ...]
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
