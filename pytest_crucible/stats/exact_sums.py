"""Sums that do not depend on the order of their terms, so that parts of a run, added in any order, give the same bits.

A vector is split into parts whose bits all lie in one window, so that adding them up rounds nothing (Rump, Ogita & Oishi 2008, SIAM
J. Sci. Comput. 31:189, ExtractVector). What remains is split again, and whole numbers of Python hold the sum. The result is rounded
once, as that of `math.fsum` (Shewchuk 1997, Discrete Comput. Geom. 18:305).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass

Array = npt.NDArray[np.float64]

# A window of 37 bits for so many terms; they and their remainders stay in the processor's cache. With shorter pieces two threads
# would wait for Python's lock, which each operation takes once.
PIECE = 2**15
_WINDOW = 16
# The smallest float is 2^-1074; its 53 bits need as many more places.
_PLACES = 1074 + 53
# Values above it would overflow in the sum with a window, and are halved this often.
_HUGE, _HALVINGS = 1000, 64


@dataclass(slots=True)
class ExactSum:
    """The sum of all values that were added, exact.

    >>> total = ExactSum()
    >>> total.add(np.array([1e100, 1.0, -1e100]))
    >>> total.value
    1.0
    """

    units: int = 0
    """The sum in units of 2^-1127."""

    def add(self, values: Array) -> None:
        """Add finite values."""
        for start in range(0, values.size, PIECE):
            self._add_piece(values[start : start + PIECE])

    @property
    def value(self) -> float:
        """The sum, rounded once; infinite where no float is as large."""
        try:
            return self.units / (1 << _PLACES)
        except OverflowError:
            return math.copysign(math.inf, self.units)

    def _add_piece(self, values: Array) -> None:
        if math.frexp(_largest(values))[1] > _HUGE:
            # Those from 1 on alone: a tiny value would lose bits.
            is_large = np.abs(values) >= 1
            self._add_windows(values[is_large] * 2.0**-_HALVINGS, _HALVINGS)
            values = values[~is_large]
        self._add_windows(values, 0)

    def _add_windows(self, rest: Array, halvings: int) -> None:
        exponent = math.frexp(_largest(rest))[1]
        while rest.any():
            window = math.ldexp(1.0, max(exponent + _WINDOW, -1022))
            part = rest + window
            part -= window
            self._add_exactly(float(part.sum()), halvings)
            rest = rest - part
            # What remains is at most half of the last bit of the window.
            exponent += _WINDOW - 53

    def _add_exactly(self, number: float, halvings: int) -> None:
        mantissa, exponent = math.frexp(number)
        self.units += int(mantissa * 2**53) << (exponent - 53 + _PLACES + halvings)


def _largest(values: Array) -> float:
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def exact_sum(values: Array) -> float:
    """Return the sum of finite values, rounded once: the same for every order of them.

    >>> exact_sum(np.array([0.1] * 10))
    1.0
    """
    total = ExactSum()
    total.add(values)
    return total.value


# Three limbs of 26 bits: the sums of 2^27 of them are whole numbers that a float holds.
_LIMB = 26
_LIMBS = 3


@dataclass(slots=True)
class GroupSums:
    """The sum of each group's values, whose bits up to 78 places below the largest value count.

    >>> sums = GroupSums(exponent=1)
    >>> sums.add(np.array([0, 1, 0]), np.array([0.1, 0.5, 0.2]))
    >>> sums.totals().tolist(), sums.sizes.tolist()
    ([0.30000000000000004, 0.5], [2, 1])
    """

    exponent: int
    """No value is larger than 2 to this power."""
    limbs: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    def __init__(self, exponent: int, groups: int = 0) -> None:
        self.exponent = exponent
        self.limbs = np.zeros((_LIMBS, groups), dtype=np.int64)
        self.sizes = np.zeros(groups, dtype=np.int64)

    def add(self, codes: npt.NDArray[np.integer], values: Array) -> None:
        """Add values to their groups, which are numbered from 0."""
        if not values.size:
            return
        self._grow(int(codes.max()) + 1)
        groups = self.sizes.size
        self.sizes += np.bincount(codes, minlength=groups)
        rest = _scale(values, -self.exponent)
        for limb in self.limbs:
            # In the unit of the largest value, so that no power of two leaves the range of floats.
            whole = np.rint(rest * 2.0**_LIMB)
            limb += np.bincount(codes, weights=whole, minlength=groups).astype(np.int64)
            rest = rest * 2.0**_LIMB - whole
            if not rest.any():
                return

    def totals(self) -> Array:
        """Return the sum of each group."""
        first, second, third = (
            limb.astype(np.float64) * 2.0 ** (-_LIMB * (place + 1)) for place, limb in enumerate(self.limbs)
        )
        return _scale(first + (second + third), self.exponent)

    def _grow(self, groups: int) -> None:
        missing = groups - self.sizes.size
        if missing > 0:
            self.limbs = np.pad(self.limbs, ((0, 0), (0, missing)))
            self.sizes = np.pad(self.sizes, (0, missing))


def _scale(values: Array, exponent: int) -> Array:
    """Return the values times a power of two; in two steps, because it may be beyond the range of floats."""
    half = exponent // 2
    return np.asarray(values * 2.0**half * 2.0 ** (exponent - half)) if exponent else values


def exponent_of(low: float, high: float) -> int:
    """Return the power of two that no value between these ends exceeds.

    >>> exponent_of(-0.75, 0.5), exponent_of(0.0, 1.0)
    (0, 1)
    """
    return math.frexp(max(abs(low), abs(high)))[1]


def group_totals(codes: npt.NDArray[np.integer], values: Array) -> tuple[Array, Array]:
    """Return the sum of each group's values, and their number; groups are numbered from 0."""
    sums = GroupSums(exponent_of(float(values.min(initial=0.0)), float(values.max(initial=0.0))))
    sums.add(codes, values)
    return sums.totals(), sums.sizes.astype(np.float64)
