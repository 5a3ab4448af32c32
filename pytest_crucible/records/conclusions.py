"""What an experiment and a session come to: analyses, verdicts, the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_crucible.records.judges import HumanAgreement, PlaceBias
from pytest_crucible.records.questions import Plan
from pytest_crucible.records.statistics import Comparison, Diversity, Estimate, FindingTally, TargetResult
from pytest_crucible.records.usage import BudgetSpent, Usage
from pytest_crucible.records.words import State


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
class FromCache:
    """How many of the replies that an arm asked for came from the reply cache, and since when the oldest was there."""

    replies: int
    requests: int
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A baseline that was asked anew, against its stored answers: with one identity, a difference is the server's."""

    arm: str
    run: str
    """The run that stored answers are of."""
    alpha: float
    comparison: Comparison
    """Today's answers are the candidate."""

    @property
    def found(self) -> bool:
        """Is it proven?"""
        return self.comparison.p_adjusted is not None and self.comparison.p_adjusted <= self.alpha


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
    """Arm name -> the arm's own failures (assertion, timeout, truncated, filtered) -> count. They count as worst scores."""
    finished: bool
    """False when sampling was cut short."""
    first_lost: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Arm name -> reason -> what was said of the first one."""
    reused: Mapping[str, Reused] = field(default_factory=dict)
    """Arm name -> the stored answers that stood in for new ones."""
    from_cache: Mapping[str, FromCache] = field(default_factory=dict)
    """Arm name -> the replies that were not asked for, because they were there."""
    worst: tuple[Worst, ...] = ()
    inapplicable: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why it does not apply to some sample of the candidate."""
    diversity: tuple[Diversity, ...] = ()
    """One for each ensemble and metric of right and wrong."""
    findings: tuple[FindingTally, ...] = ()
    """Of the antagonist, for each arm and name of a finding."""
    judges: tuple[PlaceBias | HumanAgreement, ...] = ()
    """What is known of the judges of each arm's replies."""
    drifts: tuple[Drift, ...] = ()
    """Of each baseline that was asked anew and had been asked before, on each metric that is compared."""
    usage: tuple[Usage, ...] = ()
    """What it took to ask each arm that was asked something, in the order of the arms, and then each judge."""


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
    budgets: tuple[BudgetSpent, ...] = ()
