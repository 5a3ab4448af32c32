"""Results of an experiment and a session: analyses, verdicts, the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_crucible.records.history import Look
from pytest_crucible.records.plan import Plan
from pytest_crucible.records.rules import RULES_VERSION
from pytest_crucible.records.statistics import Comparison, Estimate, TargetResult
from pytest_crucible.records.types import State
from pytest_crucible.records.usage import BudgetSpent
from pytest_crucible.records.views import SectionOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Met, missed or undecided, and whether the data prove it."""

    nodeid: str
    subject: str
    kind: Literal["target", "comparison", "claim"]
    state: State
    proven: bool
    reason: str
    suite_error: bool = False
    """True for an error in the suite, such as a target on a metric without scores. Always fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedReplies:
    """Stored replies that replaced new ones: their run and their number."""

    run: str
    replies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedReplies:
    """Number of an arm's replies that came from the reply cache, and the time when the oldest was stored."""

    replies: int
    requests: int
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything that the analysis computed for one experiment. Verdicts are decided from it."""

    plan: Plan
    estimates: tuple[Estimate, ...]
    targets: tuple[TargetResult, ...]
    comparisons: tuple[Comparison, ...]
    kinds: Mapping[str, str]
    """Each metric's kind: declared, or inferred from the values of all arms."""
    finished: bool
    """False when sampling was cut short."""
    unanswered: tuple[str, ...] = ()
    """Arms without a single result, such as one whose key the server refuses, unless the run's deadline passed first."""
    inapplicable: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why it does not apply to some sample of the candidate."""
    failed_metrics: Mapping[str, str] = field(default_factory=dict)
    """Metric -> its error, if it failed on all samples."""
    looks: Mapping[str, Look] = field(default_factory=dict)
    """Subject of a comparison -> the look at pooled replies that decides it."""
    ended: str = ""
    """Why the session ended before the last stage of the experiment; empty if it did not."""
    out_of_reach: tuple[str, ...] = ()
    """The texts of the targets that could not be met any more when the session ended."""
    bounds_share_alpha: bool = False
    """Whether the claims that bounds decide share alpha with the comparisons."""
    sections: Mapping[str, SectionOutcome] = field(default_factory=dict)
    """Results and views of the report's sections, by name, in the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One session with its experiments, analyses and verdicts, as reporters receive it."""

    id: str
    started: str
    finished: str
    seed: int
    git: Mapping[str, Any] | None
    environment: Mapping[str, Any]
    alpha: float
    correction: str
    family_size: int
    """Number of all comparisons of the session, decided or not: the family that p-values are adjusted for."""
    experiments: tuple[Analysis, ...]
    verdicts: tuple[Verdict, ...]
    exit_status: int
    store: str
    rules: int = RULES_VERSION
    """The version of the rules by which the session decided its verdicts."""
    decided_again: bool = False
    """Whether the verdicts are those of this build's rules instead."""
    budgets: tuple[BudgetSpent, ...] = ()
