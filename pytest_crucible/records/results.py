"""Results of an experiment, of a session and of earlier runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.measures import State
from pytest_crucible.records.plan import Plan
from pytest_crucible.records.statistics import Comparison, Estimate, TargetResult
from pytest_crucible.records.usage import BudgetSpent
from pytest_crucible.records.views import Doubt, SectionOutcome

RULES_VERSION = 2
"""2: a gate asks whether arms are alike, by permutation, and bounds of the mean say what is proven (decision 0050).
1: t and CR2 decided both."""


def rules_of(environment: Mapping[str, Any]) -> int:
    """Return the version of the rules of a stored run, by its environment; builds before version 2 stored none.

    >>> rules_of({}), rules_of({"rules": 2})
    (1, 2)
    """
    return int(environment.get("rules", 1))


Change = Literal["", "proven", "other samples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in a list of runs."""

    id: str
    started: str
    finished: str | None
    status: str
    """`running`, `finished` or `interrupted`; a killed run stays `running`."""
    exit_status: int | None
    commit: str | None
    dirty: bool | None
    experiments: tuple[str, ...]
    """Their nodeids."""
    arms: tuple[str, ...]
    """The names of the candidate and the baselines."""
    verdicts: Mapping[str, int]
    """State to count."""
    tags: tuple[str, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why it was made a baseline, by tag."""
    explains: bool = False
    """Whether it explains replies, and gives no verdict."""

    @property
    def all_met(self) -> bool:
        """Return whether the run finished with at least one verdict, and every verdict is met."""
        return self.status == "finished" and set(self.verdicts) == {"met"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastComparison:
    """One comparison of the same candidate with the same baseline by the same measure, in an earlier session.

    The session was concluded, and all its samples were run.
    """

    run: str
    started: str
    arms: tuple[int, int]
    """The store's keys of candidate and baseline."""
    has_new_replies: tuple[bool, bool]
    """Whether candidate and baseline have any reply that was neither copied from a stored run nor cached."""
    subject: str
    """The measure, the claim and the margin; the arms are called candidate and baseline."""
    is_pooled: bool
    """Whether the session decided it with crucible_memory = "pool"."""
    missed: bool
    """Whether its verdict was "missed", by the rules of this build: what an earlier build decided is decided again."""
    proven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One decision on the replies of all sessions with one candidate and one baseline."""

    number: int
    """The number of the look, from 1. Each session that brought new replies is a look."""
    replies: tuple[int, ...]
    """The number of replies of the candidate, and then of the baseline if there is one."""
    since: str
    """When the first of the sessions began."""
    proven_in: PastComparison | None = None
    """The session that proved the candidate worse."""
    sessions: tuple[int, ...] = ()
    """The number of sessions that brought replies of the candidate, and then of the baseline."""
    other_calls: int = 0
    """The number of sessions that sent other calls: their replies are left out, and they count as looks."""

    def alpha(self, alpha: float) -> float:
        """Return the one-sided error rate of this look. The rates of all looks add up to alpha."""
        return alpha / (self.number * (self.number + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVariability:
    """The variability of the differences between candidate and baseline from sample to sample."""

    nodeid: str
    metric: str
    baseline: str
    pairs: int
    """0 if the variability is assumed, not measured."""
    deviation: float
    """Standard deviation of the differences."""
    discordance: float | None
    """Share of samples on which the arms disagree, for a binary metric."""
    span: float = math.inf
    """High minus low end of the metric's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A metric in one of many runs."""

    run: str
    started: str
    estimate: Estimate
    change: Change
    """Why the trend changes at this point; empty if it does not."""


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
class SentAgain:
    """Stored replies that answered other calls than this session sends, so that their samples were sent again."""

    replies: int
    differences: Mapping[str, Mapping[str, Any]]
    """Name of a parameter, or `messages`, -> its value in the first such call: `sent` now, and `stored`."""


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

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """The facts by which no verdict is believed."""
        return tuple(doubt for outcome in self.sections.values() for doubt in outcome.doubts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFact:
    """A fact that every report shows of a run, or of one of its verdicts; a feature adds it."""

    name: str
    """Names it in reports, and is its key in JSON and JUnit files: `fragility`."""
    text: str
    """One line for people."""
    document: Any
    """Plain data for JSON."""
    nodeid: str = ""
    """The experiment of the verdict; empty for a fact of the run."""
    subject: str = ""


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
    facts: tuple[ReportFact, ...] = ()
    """What features say of the run and its verdicts; computed only for a report, and where -v asks for it."""

    @property
    def own_facts(self) -> tuple[ReportFact, ...]:
        """The facts of the run itself."""
        return tuple(fact for fact in self.facts if not fact.nodeid)

    def facts_of(self, verdict: Verdict) -> tuple[ReportFact, ...]:
        """Return the facts of one verdict."""
        key = verdict.nodeid, verdict.subject
        return tuple(fact for fact in self.facts if (fact.nodeid, fact.subject) == key)
