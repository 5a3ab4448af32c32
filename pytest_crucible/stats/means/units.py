"""The distinct units of values, and sums of powers of the others: all that Gaffke's bound, CR2 and Korn & Graubard's need.

A unit is a value, or a group with its total and its size. Equal units are one row with their number, so that neither order nor
split of the values changes a bit. More than `MANY` distinct values are reduced to sums of powers around their mean, and to the
`MANY` values that are the farthest from it. The series of the others then converges wherever a tail is not below 1e-50: as many
values lie at least as far away as the farthest of them, and so sd sqrt(n) is at least 64 times its distance.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.exact_sums import PIECE, exact_sum, group_totals
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity

FEWEST_CLUSTERS = 5
"""Below this no correction repairs a variance between clusters."""


def check_clusters(count: int, *, fewest: int = FEWEST_CLUSTERS) -> None:
    """Raise NotEnoughData below `fewest` clusters."""
    # Below two clusters the variance between clusters is undefined, even if the caller allows so few.
    if count < max(fewest, 2):
        raise NotEnoughData(f"{quantity(count, 'cluster')}: a cluster-robust interval needs at least {max(fewest, 2)}")


MANY = 4_096
# Of more values than this, a part that has too many distinct ones shows it sooner than all of them.
_PROBE = 4 * MANY
# The last term is 0.25^24 = 4e-15 of the first.
TERMS = 24
LARGEST_RATIO = 0.25


class Cumulant(NamedTuple):
    """K(t) and its first three derivatives."""

    value: float
    first: float
    second: float
    third: float


@dataclass(frozen=True, slots=True)
class Core:
    """Sums of powers of values around a centre, in units of a power of two."""

    centre: float
    unit: float
    reach: float
    """The largest distance of a value from the centre."""
    sums: tuple[float, ...]

    @property
    def n(self) -> float:
        return self.sums[0]

    def mirror(self) -> Core:
        return replace(self, centre=-self.centre, sums=tuple(-s if k % 2 else s for k, s in enumerate(self.sums)))

    def times(self, factor: float) -> Core:
        return replace(self, sums=tuple(factor * each for each in self.sums))

    def moments(self, mean: float) -> tuple[float, float]:
        """Return the sums of the distances from a mean, and of their squares."""
        shift, (count, first, second) = self.centre - mean, self.sums[:3]
        first, second = self.unit * first, self.unit**2 * second
        return first + count * shift, second + 2 * shift * first + count * shift**2

    def sums_around(self, mean: float, scale: float) -> list[float]:
        """Return the sums of powers of (value - mean) / scale."""
        shift = (self.centre - mean) / self.unit
        powers = [shift**k for k in range(TERMS + 1)]
        return [
            sum(math.comb(k, j) * self.sums[j] * powers[k - j] for j in range(k + 1)) * (self.unit / scale) ** k
            for k in range(TERMS + 1)
        ]


def cumulant_of_sums(sums: list[float], point: float) -> Cumulant:
    """Return the cumulant generating function of exponential variables by the sums of powers of their factors."""
    terms = [point**k for k in range(TERMS + 1)]
    return Cumulant(
        sum(sums[k] * terms[k] / k for k in range(1, TERMS + 1)),
        sum(sums[k] * terms[k - 1] for k in range(1, TERMS + 1)),
        sum((k - 1) * sums[k] * terms[k - 2] for k in range(2, TERMS + 1)),
        sum((k - 1) * (k - 2) * sums[k] * terms[k - 3] for k in range(3, TERMS + 1)),
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UnitRows:
    """Distinct units in rising order, each with its number; above `MANY` distinct values the farthest of them, and `core`."""

    totals: Array
    sizes: Array
    times: Array
    low: float
    """The smallest value; of groups, the smallest mean."""
    high: float
    largest: float
    """The largest distance of a value from 0."""
    core: Core | None = None

    @property
    def n(self) -> float:
        """The number of values."""
        return float(np.sum(self.times * self.sizes)) + (self.core.n if self.core else 0.0)

    @property
    def count(self) -> float:
        """The number of units."""
        return float(np.sum(self.times)) + (self.core.n if self.core else 0.0)

    def mirror(self) -> UnitRows:
        """Return the units of the values with their signs changed."""
        return replace(
            self,
            totals=-self.totals[::-1],
            sizes=self.sizes[::-1],
            times=self.times[::-1],
            low=-self.high,
            high=-self.low,
            core=self.core.mirror() if self.core else None,
        )

    def repeat(self, times: float) -> UnitRows:
        """Return as many of each unit, which need not be a whole number."""
        if times == 1.0:
            return self
        return replace(self, times=times * self.times, core=self.core.times(times) if self.core else None)


def rows_of_values(values: Array) -> UnitRows:
    """Return the units of independent values.

    >>> rows = rows_of_values(np.array([0.5, 0.0, 0.5]))
    >>> rows.totals.tolist(), rows.times.tolist()
    ([0.0, 0.5], [1.0, 2.0])
    """
    few = values.size <= _PROBE or np.unique(values[:_PROBE]).size <= MANY
    if few:
        distinct, counts = np.unique(values, return_counts=True)
        if distinct.size <= MANY:
            return rows_of_distinct(distinct, counts)
    sums = PowerSums(exact_sum(values) / values.size, float(values.min()), float(values.max()))
    sums.add(values)
    return sums.rows()


def rows_of_distinct(values: Array, counts: Codes) -> UnitRows:
    """Return the units of distinct values in rising order, with the number of each."""
    # -0.0 and 0.0 are one value.
    low, high = float(values[0]) + 0.0, float(values[-1]) + 0.0
    return UnitRows(
        totals=values + 0.0,
        sizes=np.ones(values.size),
        times=counts.astype(np.float64),
        low=low,
        high=high,
        largest=max(abs(low), abs(high)),
    )


def rows_of_groups(totals: Array, sizes: Array, largest: float) -> UnitRows:
    """Return the units of groups with these totals and numbers of values."""
    order = np.lexsort((sizes, totals))
    totals, sizes = totals[order] + 0.0, sizes[order].astype(np.float64)
    last = np.append((totals[1:] != totals[:-1]) | (sizes[1:] != sizes[:-1]), True)
    ends = np.flatnonzero(last)
    means = totals[ends] / sizes[ends]
    return UnitRows(
        totals=totals[ends],
        sizes=sizes[ends],
        times=np.diff(ends, prepend=-1).astype(np.float64),
        low=float(means.min()),
        high=float(means.max()),
        largest=largest,
    )


def rows_of_clusters(values: Array, codes: Codes) -> UnitRows:
    """Return the units of values in groups that are numbered from 0."""
    totals, sizes = group_totals(codes, values)
    return rows_of_groups(totals, sizes, float(np.abs(values).max()))


# Two windows keep 36 and 37 more places of a power, which is at most 1. One and a half, because below a power of two the places
# are finer: a power plus a window then has the window's bits plus the power in units of the last place, a whole number.
_WINDOWS = 1.5 * 2.0**16, 1.5 * 2.0**-21
_WINDOW_BITS = tuple(int(bits) for bits in np.array(_WINDOWS).view(np.int64))
_PLACES, _SECOND_PLACES = 73, 37


@dataclass(slots=True)
class PowerSums:
    """Sums of powers of many values around a mean that is known, with the values that are the farthest from it."""

    mean: float
    low: float
    high: float
    n: int = 0
    units: list[int] = field(default_factory=lambda: [0] * TERMS)
    """The sums in units of 2^-73."""
    far: Array = field(default_factory=lambda: np.array([]))
    threshold: float = 0.0
    """No value that is nearer can be among the farthest."""

    @property
    def exponent(self) -> int:
        """The power of two that no distance from the mean exceeds."""
        return math.frexp(max(self.high - self.mean, self.mean - self.low))[1]

    def add(self, values: Array) -> None:
        self.n += values.size
        for start in range(0, values.size, PIECE):
            piece = values[start : start + PIECE]
            self._add_powers(piece, 1)
            self._keep(piece[np.abs(piece - self.mean) >= self.threshold])

    def rows(self) -> UnitRows:
        """Return the farthest values, and the sums of powers of the others."""
        self._prune()
        farthest, others = self.far, replace_sums(self)
        others._add_powers(farthest, -1)
        distinct, counts = np.unique(farthest, return_counts=True)
        rows = rows_of_distinct(distinct, counts)
        core = Core(
            centre=self.mean,
            unit=2.0**self.exponent,
            reach=float(np.abs(farthest - self.mean).min()),
            sums=(float(self.n - farthest.size), *(units / (1 << _PLACES) for units in others.units)),
        )
        largest = max(abs(self.low), abs(self.high))
        return replace(rows, low=self.low, high=self.high, largest=largest, core=core)

    def _add_powers(self, values: Array, sign: int) -> None:
        unit = (values - self.mean) * 2.0**-self.exponent
        power = unit.copy()
        part, rest = np.empty_like(unit), np.empty_like(unit)
        for number in range(TERMS):
            np.add(power, _WINDOWS[0], out=part)
            first = _sum_of_places(part, _WINDOW_BITS[0])
            part -= _WINDOWS[0]
            np.subtract(power, part, out=rest)
            rest += _WINDOWS[1]
            second = _sum_of_places(rest, _WINDOW_BITS[1])
            self.units[number] += sign * ((first << _SECOND_PLACES) + second)
            power *= unit

    def _keep(self, values: Array) -> None:
        self.far = np.concatenate((self.far, values))
        if self.far.size > 4 * MANY:
            self._prune()

    def _prune(self) -> None:
        distances = np.abs(self.far - self.mean)
        # Of two values at one distance the larger one stays, so that no order decides.
        order = np.lexsort((self.far, distances))[-MANY:]
        self.far, self.threshold = self.far[order], float(distances[order[0]])


def _sum_of_places(shifted: Array, window_bits: int) -> int:
    """Return the sum of numbers to which a window was added, in units of its last place.

    A sum of whole numbers takes half the time of one of floats. It may overflow, but the result is far below 2^63.
    """
    total = int(np.add.reduce(shifted.view(np.int64))) - window_bits * shifted.size
    return (total + 2**63) % 2**64 - 2**63


def replace_sums(sums: PowerSums) -> PowerSums:
    """Return a copy whose sums can be changed."""
    return replace(sums, units=list(sums.units))
