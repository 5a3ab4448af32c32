"""Effect sizes, bounds and results of significance tests: numbers with the name of their method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, p_equals, ratio_with_interval, with_interval

Status = Literal["ok", "degenerate", "insufficient_data", "insufficient_clusters"]
"""degenerate: nothing varies, or the arms are separated, so that only counting arguments apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The size of an effect under its full name, such as "hedges g". `value` is None if it is not defined."""

    name: str
    value: float | None
    interval: Interval | None = None
    note: str = ""

    def __str__(self) -> str:
        show = ratio_with_interval if "ratio" in self.name else with_interval
        return f"{self.name} {show(self.value, self.interval)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alikeness:
    """The result of a permutation test that two arms are alike."""

    method: str
    p_value: float
    smallest: float
    """The smallest p-value that any scores of as many units could have."""
    arrangements: int
    """How many arrangements were compared with the observed one, itself included."""
    exact: bool
    """True if these are all of them; otherwise they are random, by `seed`."""
    seed: int | None
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """The result of a significance test. Statistic and p-value are None if the data do not define them."""

    method: str
    """The test by name, with its variant: "wilcoxon signed-rank, exact, pratt"."""
    statistic: float | None
    p_value: float | None
    p_exact: float | None = None
    """A p-value of an exact test of the same hypothesis, if there is one in addition to the method's own."""
    proof_p: float | None = None
    """The two-sided p-value of the bounds in `interval`, where `p_value` is of another question."""
    alikeness: Alikeness | None = None
    """The permutation test that `p_value` is of; None for other tests."""
    dof: tuple[float, ...] = ()
    """Degrees of freedom: none, one, or numerator and denominator."""
    estimate: float | None = None
    """The estimate that the interval belongs to; first arm minus second arm where it is a difference."""
    interval: Interval | None = None
    se: float | None = None
    n: tuple[int, ...] = ()
    """Observations in each arm; for pairs one number."""
    effects: tuple[Effect, ...] = ()
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        return _significance_line(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A one-sided bound for a mean; None when the data do not define one, and `note` has the reason."""

    value: float | None
    method: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The two one-sided bounds of a difference, each of which errs in at most a share alpha of experiments."""

    low: float | None
    high: float | None
    method: str
    note: str = ""


def _significance_line(result: Significance) -> str:
    """Return `estimate [interval], statistic 2.1, dof 39, p = 0.042, n=40 (paired t)`, without missing parts."""
    parts = [with_interval(result.estimate, result.interval)] if result.estimate is not None else []
    if result.statistic is not None:
        parts.append(f"statistic {number(result.statistic)}")
    parts += [f"dof {', '.join(f'{dof:.4g}' for dof in result.dof)}"] if result.dof else []
    # A missing part is left out rather than shown as "nan", which reads like a result.
    parts += [] if result.p_value is None else [f"{p_equals(result.p_value)}"]
    parts += [f"n={' + '.join(f'{n:,}' for n in result.n)}"] if result.n else []
    return f"{', '.join(parts) or result.note} ({result.method})"
