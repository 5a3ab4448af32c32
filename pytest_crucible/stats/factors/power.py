"""Power over random factors, and the interval of a crossed mean with more samples, prompts, trainings or rounds.

Power over random factors: the difference that a design shows with 80 % power, and the samples that suffice.
A difference D has the variance of its sources; a new run measures each source on its own degrees of freedom, and tests by
`sources.half_width`. The chance of D - half-width > 0 is averaged over what the new run will measure, and, where the sources are
those of a run, over the truth given that run: a source's variance is its estimate times dof / chi-squared. For samples alone
this is the average of `planning.next_sample.detectable_by_error`.

With more levels of a factor, its level means come more often; with more of another source, they lie closer together, by the part
of their spread that is noise (`with_levels`). The distance of the bounds is then Gaffke's over these means (`sources`), so that
the predicted interval is of the kind that a report shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Range, Side, check_shares, is_finite_range
from pytest_crucible.stats.factors.crossed import CrossedMean
from pytest_crucible.stats.factors.sources import LevelMeans, Source, half_width
from pytest_crucible.stats.planning.roots import rising_root, smallest_integer


def expected_half_width(sources: Sequence[Source], alpha: float, name: str = "", levels: int = 0) -> float:
    """Return the expected half-width if the source with this name has this number of levels.

    >>> samples = Source(name="samples", levels=1000, dof=999, variance=0.0002)
    >>> prompts = Source(name="prompts", levels=5, dof=4, variance=0.0008, floor=0.0001)
    >>> [round(expected_half_width([samples, prompts], 0.05, *more), 3) for more in ((), ("prompts", 25), ("samples", 2000))]
    [0.081, 0.033, 0.077]
    """
    return half_width(with_levels(raise_to_floors(sources), name, levels), alpha)


def raise_to_floors(sources: Sequence[Source]) -> list[Source]:
    """Return the sources with variances of at least their floors: levels may be alike by chance."""
    return [replace(source, variance=max(source.variance, source.floor)) for source in sources]


def with_levels(sources: Sequence[Source], name: str, levels: int) -> list[Source]:
    """Return the sources with a new number of levels for the named one; unchanged if no source has that name."""
    samples, *factors = sources
    if name == samples.name:
        share = samples.levels / levels
        # The floors come from the samples and shrink with them; the factors' own part stays.
        smaller = [
            replace(factor, variance=factor.variance - factor.floor * (1 - share), floor=factor.floor * share)
            for factor in factors
        ]
        return [replace(samples, levels=levels, dof=samples.dof / share, variance=samples.variance * share), *smaller]
    changed = []
    for factor in factors:
        if factor.name == name:
            share = factor.levels / levels
            samples = replace(samples, variance=samples.variance - factor.floor * (1 - share))
            factor = replace(
                factor, levels=levels, dof=levels - 1.0, variance=factor.variance * share, floor=factor.floor * share
            )
        changed.append(factor)
    return [samples, *changed]


_CASES = 2000
"""The chance is off by less than 0.003."""
_PRIOR = 0.5
"""Degrees of freedom added to those of a factor's true variance, given a run. With none, the power at the printed difference is
up to .90 where factors vary, with one it is down to .72, and with this .78 to .86; where they do not vary at all, it is .90 to
.95 (tests/truth/test_factors_truth.py has such runs)."""
_MOST_ERRORS = 1000.0
"""Above this many standard errors a detectable difference is not shown."""


def detectable_over_sources(
    sources: Sequence[Source], *, alpha: float = 0.05, power: float = 0.8, measured: bool = True
) -> float | None:
    """Return the smallest difference that a two-sided test of a run of this design shows with this power.

    `measured` sources are estimates of a run; others are the truth. None if no difference is large enough.

    >>> samples = Source(name="samples", levels=200, dof=199, variance=1.0)
    >>> rounds = Source(name="rounds", levels=5, dof=4, variance=1.0)
    >>> [round(detectable_over_sources(sources), 2) for sources in ([samples], [samples, rounds])]
    [2.83, 5.1]
    """
    check_shares(alpha=alpha, power=power)
    total = sum(source.variance for source in sources) ** 0.5
    if not total:
        return None
    cases = _Cases(sources, measured=measured)

    def shortfall(errors: float) -> float:
        return cases.chance(sources, errors * total, alpha / 2) - power

    return None if shortfall(_MOST_ERRORS) < 0 else total * rising_root(shortfall, 0.0, most=_MOST_ERRORS)


def samples_over_sources(
    sources: Sequence[Source],
    distance: float,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    measured: bool = True,
) -> int | None:
    """Return the samples with which a one-sided bound clears a distance; None if the factors forbid it, or nothing varies."""
    check_shares(alpha=alpha, power=power)
    if distance <= 0 or not any(source.variance for source in sources):
        return None
    cases = _Cases(sources, measured=measured)

    def clears(n: int) -> bool:
        return cases.chance(with_levels(sources, sources[0].name, n), distance, alpha) >= power

    # What an endless number of samples cannot do, no number can.
    return smallest_integer(clears, 3) if clears(_ENDLESS) else None


# Samples beyond any budget: if these do not clear the distance, no number does.
_ENDLESS = 10**9


class _Cases:
    """Stratified cases of the measured sources, the same for every number of levels."""

    def __init__(self, sources: Sequence[Source], *, measured: bool) -> None:
        rng = np.random.default_rng(0)
        strata = (np.arange(_CASES) + 0.5) / _CASES
        # The samples' degrees of freedom change with their number, and are many: Wilson & Hilferty's cube suits them.
        self._samples = [scipy.special.ndtri(rng.permutation(strata)) for _ in range(2)]
        self._factors = [
            (
                _chi_squared(rng.permutation(strata), source.dof, _PRIOR),
                _chi_squared(rng.permutation(strata), source.dof),
            )
            for source in sources[1:]
        ]
        self._measured = measured

    def chance(self, sources: Sequence[Source], distance: float, tail: float) -> float:
        """Return the chance that a difference of this size exceeds the half-width at the tail."""
        samples, *factors = sources
        truth, observed = (_cube(normal, samples.dof) for normal in self._samples)
        shares = [(truth, observed), *self._factors]
        true = [
            np.maximum(source.variance / share if self._measured else source.variance, source.floor)
            for source, (share, _) in zip(sources, shares, strict=True)
        ]
        measured = [variance * share for variance, (_, share) in zip(true, shares, strict=True)]
        squares = np.square(scipy.special.stdtrit([max(source.dof, 1.0) for source in sources], tail))
        half = squares[0] * measured[0]
        variance = true[0] + 0.0
        for source, square, of_run, of_truth in zip(factors, squares[1:], measured[1:], true[1:], strict=True):
            half = half + np.maximum(square * of_run - squares[0] * source.floor, 0.0)
            variance = variance + np.maximum(of_truth - source.floor, 0.0)
        return float(scipy.special.ndtr((distance - np.sqrt(half)) / np.sqrt(variance)).mean())


def _chi_squared(shares: Array, dof: float, prior: float = 0.0) -> Array:
    """Return quantiles of chi-squared / dof; `prior` adds to the degrees of freedom alone."""
    return np.asarray(2 * scipy.special.gammaincinv((dof + prior) / 2, shares) / dof)


def _cube(normal: Array, dof: float) -> Array:
    """Return quantiles of chi-squared / dof by Wilson & Hilferty (1931)."""
    return np.asarray(np.maximum(1 - 2 / (9 * dof) + normal * (2 / (9 * dof)) ** 0.5, 1e-3) ** 3)


MOST_TIMES = 64
"""Designs with more than this many times the levels are not suggested."""
_SIDES: tuple[Side, ...] = ("lower", "upper")


@dataclass(frozen=True)
class NextInterval:
    """The two-sided interval of a mean, by the number of levels of one of its sources; `alpha` is its error rate."""

    mean: CrossedMean
    alpha: float
    bounds: Range | None = None

    def half_width(self, name: str, levels: int) -> float:
        """Return half the width to expect if the source with this name has this number of levels."""
        below, above = self._distances(name, levels)
        low, high = self.mean.estimate - below, self.mean.estimate + above
        if self.bounds is not None:
            low, high = max(low, self.bounds[0]), min(high, self.bounds[1])
        return (high - low) / 2

    def _distances(self, name: str, levels: int) -> tuple[float, float]:
        if self.bounds is None or not is_finite_range(self.bounds):
            half = expected_half_width(self.mean.sources, self.alpha, name, levels)
            return half, half
        before = raise_to_floors(self.mean.sources)
        after = with_levels(before, name, levels)
        parts = [_grow(*part) for part in zip(self.mean.levels, before[1:], after[1:], strict=True)]
        shrink = _shrink(before[0], after[0])
        below, above = (
            math.hypot(shrink * of_samples, *(part.distance(side, self.alpha / 2, self.bounds) for part in parts))
            for side, of_samples in zip(_SIDES, self._of_samples, strict=True)
        )
        return below, above

    @cached_property
    def _of_samples(self) -> tuple[float, float]:
        assert self.bounds is not None
        samples = self.mean.parts[0]
        below, above = (samples.distance(side, self.alpha / 2, self.bounds) for side in _SIDES)
        return below, above


def _grow(part: LevelMeans, before: Source, after: Source) -> LevelMeans:
    """Return the level means of a factor whose part of the variance, or whose number of levels, changes."""
    times, centre = after.levels / before.levels, float(part.values.mean())
    scale = math.sqrt(times * _remaining_share(before, after)) if before.variance else 1.0
    return replace(part, values=centre + scale * (part.values - centre), times=times)


def _shrink(before: Source, after: Source) -> float:
    """Return the factor by which bounds over samples come closer. Those of samples that are alike fall with their number."""
    return math.sqrt(_remaining_share(before, after)) if before.variance else before.levels / after.levels


def _remaining_share(before: Source, after: Source) -> float:
    """Return the part of a source's variance that more levels leave. What is estimated of another source may exceed it."""
    return max(after.variance, 0.0) / before.variance


def fewest_levels_for(half_width: Callable[[int], float], levels: int, goal: float) -> int | None:
    """Return the levels at which an interval is at most this wide; None beyond MOST_TIMES the present ones.

    >>> fewest_levels_for(lambda levels: 1 / levels, levels=3, goal=0.15)
    7
    """
    low, high = levels, levels * MOST_TIMES
    if half_width(high) > goal:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if half_width(middle) > goal else (low, middle)
    return high
