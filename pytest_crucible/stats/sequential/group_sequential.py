"""Group-sequential plans: boundaries for a few looks that were planned beforehand, by alpha spending.

Cheaper than a confidence sequence when the looks are few: an O'Brien-Fleming-type plan of five looks costs at most 3 %
more samples than no look at all. Lan & DeMets 1983 (Biometrika 70:659); the recursion is that of Armitage, McPherson &
Rowe 1969.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from pytest_crucible.stats.arrays import Array, check_share, finite

Spending = Literal["obrien-fleming", "pocock"]
# Standard deviations beyond which nothing is integrated: the tail is below 1e-18.
FAR = 9.0
# Integration nodes per standard deviation of a step; more change nothing in the twelfth digit.
NODES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLooks:
    """A plan of looks: their times, and how far z must be from 0 at each look to stop.

    All looks together err with probability at most alpha.
    """

    fractions: tuple[float, ...]
    """Share of the planned samples at each look."""
    boundaries: tuple[float, ...]
    """Critical z at each look; two-sided plans stop at either sign."""
    p_values: tuple[float, ...]
    """The boundaries as p-values: stop at a look whose fixed-n p-value is at most this."""
    spent: tuple[float, ...]
    """The part of alpha spent after each look."""
    alpha: float
    spending: Spending
    two_sided: bool

    def first_crossing(self, z_values: Sequence[float]) -> int | None:
        """Return the first look (1, 2, ...) that crosses its boundary, or None."""
        z = finite(z_values, name="z values")
        if z.size > len(self.boundaries):
            raise ValueError(
                f"{z.size} z values for {len(self.boundaries)} planned looks: give one for each look so far"
            )
        reached = (np.abs(z) if self.two_sided else z) >= np.array(self.boundaries[: z.size])
        return int(reached.argmax()) + 1 if reached.any() else None

    def __str__(self) -> str:
        looks = ", ".join(f"{t:.0%}: {p:.4g}" for t, p in zip(self.fractions, self.p_values, strict=True))
        return f"{self.spending}, {len(self.fractions)} looks, alpha {self.alpha:g}; stop at p <= {looks}"


def plan_looks(
    fractions: int | Sequence[float],
    *,
    alpha: float = 0.05,
    spending: Spending = "obrien-fleming",
    two_sided: bool = True,
) -> PlannedLooks:
    """Return the boundaries for looks after these shares of the samples.

    A number means that many evenly spaced looks. The spending per side is 2 - 2 Phi(z / sqrt(t)) or a log(1 + (e - 1)
    t), with half of alpha for each side of a two-sided plan. A boundary depends on no later look: when the looks happen
    at other times than planned, plan again with the real ones. R: gsDesign::gsDesign(k, test.type=2, alpha=0.025,
    sfu=sfLDOF, n.I=) or rpact::getDesignGroupSequential. Raises ValueError unless fractions rise within (0, 1].

    >>> [round(z, 3) for z in plan_looks(5).boundaries]
    [4.877, 3.357, 2.68, 2.29, 2.031]
    """
    times = _check_fractions(fractions)
    check_share(alpha, "alpha")
    spending_so_far = _spend_alpha(times, alpha / 2 if two_sided else alpha, spending)
    boundaries: list[float] = []
    walk = _Walk(two_sided=two_sided)
    for time, due in zip(times, np.diff(spending_so_far, prepend=0.0), strict=True):
        walk = walk.advance_to(float(time))
        boundaries.append(walk.boundary(float(due)))
        walk = walk.truncate_to(boundaries[-1])
    sides = 2 if two_sided else 1
    return PlannedLooks(
        fractions=tuple(times.tolist()),
        boundaries=tuple(boundaries),
        p_values=tuple((sides * ndtr(-np.array(boundaries))).tolist()),
        spent=tuple((sides * spending_so_far).tolist()),
        alpha=alpha,
        spending=spending,
        two_sided=two_sided,
    )


def stopping_probabilities(looks: PlannedLooks, *, drift: float = 0.0) -> tuple[float, ...]:
    """Return the probability of having stopped by each look.

    `drift` is the expected z at fraction 1; 0 is the null hypothesis.

    >>> round(stopping_probabilities(plan_looks(5))[-1], 10)
    0.05
    """
    walk, probability, probabilities = _Walk(two_sided=looks.two_sided, drift=drift), 0.0, []
    for time, boundary in zip(looks.fractions, looks.boundaries, strict=True):
        walk = walk.advance_to(time)
        probability += walk.above(boundary) + (walk.below(-boundary) if looks.two_sided else 0.0)
        walk = walk.truncate_to(boundary)
        probabilities.append(probability)
    return tuple(probabilities)


def price_of_looks(looks: PlannedLooks, *, power: float = 0.8) -> tuple[float, float]:
    """Return the largest and the expected number of samples, as multiples of those of a single look.

    Both are at the effect that the plan detects with this power.

    >>> most, expected = price_of_looks(plan_looks(5))
    >>> round(most, 3), round(expected, 3)
    (1.025, 0.824)
    """
    check_share(power, "power")
    if power <= looks.alpha:
        raise ValueError(f"power must be above alpha, not {power!r} at alpha {looks.alpha!r}")
    # A drift of 20 standard deviations has a power of 1 to the last bit for every alpha in use.
    drift = _bisect(lambda drift: stopping_probabilities(looks, drift=drift)[-1] < power, 0.0, 20.0)
    single = float(ndtri(power)) - float(ndtri(looks.alpha / (2 if looks.two_sided else 1)))
    largest = (drift / single) ** 2
    before = np.array((0.0, *stopping_probabilities(looks, drift=drift)[:-1]))
    steps = np.diff(looks.fractions, prepend=0.0)
    return largest, largest * float(((1 - before) * steps).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Brownian motion at one time, on the paths that never crossed a boundary.

    It is kept as mass at the nodes of the last look, followed by one step.
    """

    two_sided: bool
    drift: float = 0.0
    time: float = 0.0
    step: float = 0.0
    nodes: Array = field(default_factory=lambda: np.zeros(1))
    mass: Array = field(default_factory=lambda: np.ones(1))

    def advance_to(self, time: float) -> _Walk:
        """Return the walk at a later time."""
        return replace(self, time=time, step=time - self.time)

    def above(self, z: float) -> float:
        """Return the probability of being above z now; z is in standard deviations of a walk without drift."""
        return float(self.mass @ ndtr(-self._distance(z)))

    def below(self, z: float) -> float:
        return float(self.mass @ ndtr(self._distance(z)))

    def boundary(self, due: float) -> float:
        return _bisect(lambda z: self.above(z) > due, -FAR, 2 * FAR)

    def truncate_to(self, boundary: float) -> _Walk:
        """Return the walk on the paths that stay within the boundary: its density at Gauss-Legendre nodes."""
        spread = math.sqrt(self.time)
        centre, reach = self.drift * self.time, FAR * spread
        high = min(boundary * spread, centre + reach)
        low = max(-boundary * spread, centre - reach) if self.two_sided else centre - reach
        # A drift far beyond the boundary leaves no path inside it.
        if not low < high:
            return replace(self, nodes=np.zeros(1), mass=np.zeros(1))
        positions, weights = _nodes(32 + 16 * math.ceil(NODES * (high - low) / math.sqrt(self.step) / 16))
        nodes = (high + low) / 2 + (high - low) / 2 * positions
        return replace(self, nodes=nodes, mass=weights * (high - low) / 2 * self._density(nodes))

    def _distance(self, z: float) -> Array:
        distance = z * math.sqrt(self.time) - self.nodes - self.drift * self.step
        return np.asarray(distance / math.sqrt(self.step))

    def _density(self, nodes: Array) -> Array:
        distance = (nodes[:, None] - self.nodes[None, :] - self.drift * self.step) / math.sqrt(self.step)
        kernel = np.exp(-(distance**2) / 2) / math.sqrt(2 * math.pi * self.step)
        return np.asarray(kernel @ self.mass)


@cache
def _nodes(count: int) -> tuple[Array, Array]:
    """Return at most 1,000 Gauss-Legendre nodes and their weights.

    Looks closer together than a share of 1e-4 lose digits, and hardly differ.
    """
    positions, weights = np.polynomial.legendre.leggauss(min(count, 1000))
    return positions, weights


def _spend_alpha(times: Array, alpha: float, spending: Spending) -> Array:
    if spending == "obrien-fleming":
        return np.asarray(2 * ndtr(float(ndtri(alpha / 2)) / np.sqrt(times)))
    if spending == "pocock":
        return np.asarray(alpha * np.log1p((math.e - 1) * times))
    raise ValueError(f"spending must be 'obrien-fleming' or 'pocock', not {spending!r}")


def _check_fractions(fractions: int | Sequence[float]) -> Array:
    if isinstance(fractions, int):
        if fractions < 1:
            raise ValueError(f"expected at least 1 look, not {fractions}")
        return np.arange(1, fractions + 1) / fractions
    times = finite(fractions, name="fractions")
    if not times.size or times[0] <= 0 or times[-1] > 1 or (np.diff(times) <= 0).any():
        raise ValueError(f"the fractions of {times.size} looks must rise within (0, 1], not {times.tolist()}")
    return times


def _bisect(is_low: Callable[[float], bool], low: float, high: float) -> float:
    # 60 halvings reach the last bit of a double.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return high
