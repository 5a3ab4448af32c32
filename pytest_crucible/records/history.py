"""Records of earlier runs: summaries, repeated comparisons, the variability of paired differences, and trends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_crucible.records.statistics import Estimate

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
