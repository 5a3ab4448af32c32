"""Everything that is said of one verdict: its numbers, rule, method and pairs, how fragile it is, and which samples carry it."""

from __future__ import annotations

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Contrast, MetricFacts, State, Target, Verdict
from pytest_crucible.stats.interval import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Counts of samples that both arms got right, only one of them, or neither, by a yes-or-no metric with one reply a sample."""

    both: int
    only_candidate: int
    only_baseline: int
    neither: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Answers that change a verdict, if they were other ones. An answer is one reply of one arm in one repeat."""

    answers: int
    is_exact: bool
    """Whether no smaller number does; otherwise it is at most this one."""
    arm: str
    """The arm whose answers they are."""
    is_better: bool
    """Whether they turn to right, or to the best score; otherwise to wrong, or to the worst."""
    state: State
    """The verdict's state after it."""
    proven: bool
    samples: tuple[str, ...]
    """Ids of the samples whose answers do it, one entry an answer. Others may do it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFlip:
    """Lost samples that change what the scored samples decide, if they turned out at their worst or best."""

    samples: int
    is_exact: bool
    of: int
    """The number of lost samples."""
    is_better: bool
    """Whether they turn out well for the candidate."""
    state: State
    proven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragility:
    """The fewest answers that change a verdict, by the gate's own method, with the p-values of all other claims as they are."""

    change: Flip | None = None
    """The fewest answers that change its state or its proof; None if no answers of one arm do."""
    change_of_state: Flip | None = None
    """The fewest that change its state: the same as `change`, unless the proof changes first."""
    is_exact: bool = True
    """Whether nothing smaller changes it, and nothing at all where None is named: all sets were tried, or only numbers matter."""
    lost: LostFlip | None = None
    """None without lost samples, or if they change nothing, however they turn out."""
    counts_lost: bool = False
    """Whether `lost` was computed."""
    undefined: str = ""
    """Why it is not defined for this verdict; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """The samples or groups that carry a verdict, the most influential first."""

    unit: str
    """`sample` or `group`."""
    names: tuple[str, ...] = ()
    """Of yes-or-no pairs without groups: those that only one arm got right, on the side of the estimate. A group of one sample has
    the sample's id."""
    sizes: tuple[int, ...] = ()
    """The number of samples in each of them."""
    changes: tuple[float, ...] = ()
    """How much the estimate changes without each of them, in the order of `names`."""
    decides_alone: tuple[str, ...] = ()
    """Those without which the verdict would have another state."""
    undefined: str = ""
    """Why it is not known; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWeight:
    """The part of one sample in a verdict."""

    weight: float
    """Its share of the estimate: 1 / n."""
    n: int
    value: float | None
    """Its difference between the arms, positive where the candidate is better; of a target its value. None if that is not known."""
    state_without: State
    """The state of the verdict, had the sample not been in the dataset."""
    proven_without: bool
    decides_alone: bool
    """Whether the verdict has another state without it, or with one of its answers turned to its best or its worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFacts:
    """One verdict as `crucible why` and the reports explain it. What is not known, or has no meaning, is None or empty."""

    verdict: Verdict
    numbers: str
    """Estimate with interval, as reports show it: `-0.092 [-0.154, -0.030]`; empty without an estimate."""
    value: float | None
    interval: Interval | None
    n: int | None
    """Samples, or pairs."""
    lost: int | None
    p_adjusted: float | None
    holm_position: int | None
    """Its place among the p-values of the session's family, the smallest first; None if it is not one of them."""
    family_size: int
    rule: str
    """`regression gate: missed when the arms are not alike (alpha 0.05) and v2's estimate is worse`."""
    method: str
    """`exact unconditional: arms paired by id, no groups (p and interval)`."""
    measure: Target | Contrast | None
    """What the verdict is about; None for a claim of a section."""
    metric: MetricFacts | None
    """The facts of its metric; None where fragility is not defined."""
    pairs: Pairs | None
    fragility: Fragility
    influence: Influence
