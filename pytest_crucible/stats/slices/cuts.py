"""Cuts of fields that are quantities: where to cut, and the advice to do so where each number is a slice of its own."""

from __future__ import annotations

import math
import sys

import numpy as np

from pytest_crucible.records.slices import By, Field
from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.slices.slicing import NO_SLICE, Slicing

# More numbers than this, with fewer samples each, are a quantity rather than kinds: 53 ages of 800 people have 15 each.
MANY_NUMBERS, FEW_SAMPLES = 20, 20


def suggest_cuts(numbers: Array) -> tuple[float, ...]:
    """Return two numbers that divide the values into thirds, as round as their distance allows.

    One, or the second lowest value, where one value is so frequent that nothing is below a third.

    >>> suggest_cuts(np.arange(18.0, 65.0)), suggest_cuts(np.array([0.0] * 93 + [1, 2, 3, 4, 5, 6, 7]))
    ((33.0, 49.0), (1.0,))
    """
    first, second = np.quantile(numbers, (1 / 3, 2 / 3)).tolist()
    # Between -1e308 and 1e308 the distance is infinite.
    distance = min(second - first, sys.float_info.max) or 1.0
    digits = 1 - math.floor(math.log10(distance))
    if bool((numbers == np.round(numbers)).all()):
        digits = min(digits, 0)
    values = np.unique(numbers)
    cuts = [cut for cut in (round(first, digits), round(second, digits)) if values[0] < cut <= values[-1]]
    return tuple(dict.fromkeys(cuts)) or (float(values[:2][-1]),)


def advise_cuts(by: By, slicing: Slicing) -> str:
    """Advise to cut a field of which many numbers have few samples each; empty for other fields.

    >>> ages = Slicing(codes=np.arange(800) % 53, names=tuple(map(str, range(18, 71))))
    >>> advise_cuts(By((Field("age"),)), ages)
    '53 slices have 15 samples on average, and prove little; cut the numbers: by age(35, 53)'
    """
    inside = slicing.codes[slicing.codes != NO_SLICE]
    if len(by.fields) > 1 or by.fields[0].cuts or slicing.count <= MANY_NUMBERS:
        return ""
    if not len(inside) or len(inside) >= FEW_SAMPLES * slicing.count:
        return ""
    try:
        numbers = np.array([float(name) for name in slicing.names])
    except ValueError:
        return ""
    if not np.isfinite(numbers).all():
        return ""
    field = Field(by.fields[0].name, suggest_cuts(numbers[inside]))
    mean = round(len(inside) / slicing.count)
    return f"{slicing.count} slices have {mean} samples on average, and prove little; cut the numbers: by {field}"
