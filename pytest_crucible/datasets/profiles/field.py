"""The profile of one field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.checks.columns import Column
from pytest_crucible.datasets.checks.read_times import read_time

Numbers = npt.NDArray[np.float64]
# Values and outliers that a profile lists for each field.
MOST_VALUES = 10
# Tukey's fences, and Iglewicz & Hoaglin's (1993) limit of the modified z-score.
FENCE, MODIFIED_Z = 1.5, 3.5
# Makes the median absolute deviation of a normal distribution its standard deviation.
_NORMAL = 0.6745
_NAMES = {bool: "boolean", int: "integer", float: "float", str: "string", list: "list", tuple: "list", dict: "map"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSummary:
    """Numbers of a field, or the lengths of its texts. Population standard deviation; type-7 quantiles."""

    minimum: float
    lower_quartile: float
    median: float
    mean: float
    upper_quartile: float
    maximum: float
    stdev: float
    beyond_fences: int
    """Values beyond 1.5 interquartile ranges of the quartiles."""
    beyond_deviations: int
    """Values with a modified z-score above 3.5, by the median absolute deviation."""
    outliers: tuple[str, ...] = ()
    """Ids of the most extreme of these, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProfile:
    """One field of a dataset."""

    name: str
    types: Mapping[str, int]
    """Type -> number of values, the most frequent first."""
    missing: int
    different: int
    numbers: NumberSummary | None = None
    lengths: NumberSummary | None = None
    """Characters of texts."""
    values: Mapping[str, int] = field(default_factory=dict)
    """The most frequent values, where values repeat."""


def profile_field(column: Column, ids: list[str]) -> FieldProfile:
    """Return the profile of a column; `ids` are those of all samples."""
    types = Counter(map(_type_name, column.present_values))
    labels = Counter(column.labels)
    numbers = column.numbers
    is_number = ~np.isnan(numbers)
    texts = [
        (k, len(value))
        for k, value in zip(column.present.tolist(), column.present_values, strict=True)
        if isinstance(value, str)
    ]
    repeats = bool(labels) and max(labels.values()) > 1
    return FieldProfile(
        name=column.name,
        types=dict(sorted(types.items(), key=lambda item: (-item[1], item[0]))),
        missing=column.missing,
        different=len(labels),
        numbers=_summarise(numbers[is_number], column.present[is_number].tolist(), ids),
        lengths=_summarise(np.array([n for _, n in texts], dtype=float), [k for k, _ in texts], ids),
        values=dict(sorted(labels.items(), key=lambda item: (-item[1], item[0]))[:MOST_VALUES]) if repeats else {},
    )


def _type_name(value: object) -> str:
    if isinstance(value, str) and len(value) >= 8 and read_time(value) is not None:
        return "timestamp"
    return _NAMES.get(type(value), "map" if isinstance(value, Mapping) else type(value).__name__)


def _summarise(values: Numbers, positions: list[int], ids: list[str]) -> NumberSummary | None:
    if not len(values):
        return None
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    fence = FENCE * (high - low)
    beyond = (values < low - fence) | (values > high + fence)
    deviation = np.median(np.abs(values - median))
    # If more than half of the values are equal, the deviation is 0 and no measure of spread.
    far = (
        _NORMAL * np.abs(values - median) > MODIFIED_Z * deviation
        if deviation > 0
        else np.zeros(len(values), dtype=bool)
    )
    extreme = sorted(np.flatnonzero(beyond), key=lambda k: (-abs(values[k] - median), ids[positions[k]]))[:MOST_VALUES]
    ordered = np.sort(values)
    return NumberSummary(
        minimum=float(ordered[0]),
        lower_quartile=float(low),
        median=float(median),
        mean=float(ordered.mean()),
        upper_quartile=float(high),
        maximum=float(ordered[-1]),
        stdev=float(ordered.std()),
        beyond_fences=int(beyond.sum()),
        beyond_deviations=int(far.sum()),
        outliers=tuple(sorted(ids[positions[k]] for k in extreme)),
    )
