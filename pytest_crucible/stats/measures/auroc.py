"""Area under the ROC curve: the chance that a positive sample scores higher than a negative one; ties count half.

The variance is in `delong`, the bounds of one arm are in `area_bounds`. Two arms are compared by DeLong's paired test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from pytest_crucible.records import BoundedValue, Measure, MetricFacts, Sample
from pytest_crucible.records.labels import label_number
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.measures.area_bounds import bound_area
from pytest_crucible.stats.measures.delong import combine_placements, estimate_area, placements
from pytest_crucible.stats.measures.row import (
    Difference,
    End,
    Measured,
    Numbers,
    Observations,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
)

METHOD = "delong"
CLUSTERED = "delong, clustered"
# Two more samples of each class on which the arms differ by half of the largest possible difference. Without them the bounds
# beside a perfect arm are too narrow: 0.105 errors instead of 0.05 at 10 + 10 samples; with them 0.028 at most.
_PSEUDO = 0.5


def labels_problem(samples: Sequence[Sample]) -> str:
    """Return why the samples' `expected` cannot be labels; empty if they can."""
    for sample in samples:
        if label_number(sample.expected) is None:
            return (
                f"needs a yes-or-no expected, and sample {sample.id!r} has {sample.expected!r:.60}: "
                "write true or false, yes or no, 1 or 0"
            )
    return ""


def expected_problem(samples: Sequence[Sample]) -> str:
    """Return why the samples' `expected` cannot be labels of two classes; empty if they can."""
    problem = labels_problem(samples)
    if problem:
        return problem
    if len({label_number(sample.expected) for sample in samples}) == 1:
        return (
            f"needs samples of both classes, and all {len(samples)} have expected={samples[0].expected!r:.60}: "
            "add samples of the other class"
        )
    return ""


def prepare(observations: Observations, end: End) -> Prepared:
    """Return scores with their labels. A lost positive is lowest, and a lost negative highest, where the area is lowest."""
    labels = [label_number(value) for value in observations.expected]
    if not labels or None in labels:
        return Prepared(values=np.array([]), problem="the samples have no yes-or-no expected")
    strata = np.array(labels, dtype=np.float64)
    column = observations.columns[0]
    ends = (column.low, column.high) if end == "low" else (column.high, column.low)
    values = column.values if end == "observed" else np.where(strata == 1, *ends)
    if strata.min(initial=1.0) == strata.max(initial=0.0):
        return Prepared(values=np.array([]), problem="all scored samples have one label")
    return Prepared(values=values, strata=strata, clusters=observations.clusters, bounds=(0.0, 1.0))


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return the area with its two-sided interval."""
    if not len(prepared.values):
        return no_data(prepared)
    area, clusters = estimate_area(prepared), counted_clusters(prepared.clusters)
    ends = bound_area(prepared, area, (1 - level) / 2)
    if ends is None:
        return Measured(area.value, None, clusters, "none: fewer than 2 samples of a class")
    return Measured(
        area.value,
        Interval(low=ends[0], high=ends[1], level=level, method=_method(prepared)),
        clusters,
        _method(prepared),
    )


def bound(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the area with its one-sided bounds."""
    if not len(prepared.values):
        return no_bounds(prepared)
    area = estimate_area(prepared)
    lower, upper = bound_area(prepared, area, alpha) or (None, None)
    return BoundedValue(value=area.value, lower=lower, upper=upper), _method(prepared)


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second on the same samples: DeLong's paired test and interval by Student's t."""
    if not len(first.values) or not len(second.values) or first.strata is None:
        return None
    placed = [a - b for a, b in zip(placements(first), placements(second), strict=True)]
    difference, careful = combine_placements(placed, first), combine_placements(placed, first, pseudo=_PSEUDO)
    n, clusters = len(first.values), counted_clusters(first.clusters)
    if not math.isfinite(difference.variance):
        note = "fewer than 2 samples of a class, or clusters with one: a comparison needs at least 2 of each"
        return _difference(difference.value, None, None, (None, None), first, n, clusters, note=note)
    # If nothing varies, only the pseudo-samples allow for other outcomes. Test and interval stay one procedure.
    tested = difference if difference.variance > 0 else careful
    error = math.sqrt(tested.variance)
    p_value = min(1.0, 2 * float(scipy.special.stdtr(tested.dof, -abs(tested.value) / error)))
    half = float(scipy.special.stdtrit(tested.dof, 1 - alpha / 2)) * error
    reach = float(scipy.special.stdtrit(careful.dof, 1 - alpha)) * math.sqrt(careful.variance)
    bounds = max(-1.0, careful.value - reach), min(1.0, careful.value + reach)
    interval = Interval(
        low=max(-1.0, tested.value - half), high=min(1.0, tested.value + half), level=1 - alpha, method=_method(first)
    )
    return _difference(difference.value, interval, p_value, bounds, first, n, clusters, error=error)


def _difference(
    value: float,
    interval: Interval | None,
    p_value: float | None,
    bounds: tuple[float | None, float | None],
    first: Prepared,
    n: int,
    clusters: int | None,
    *,
    error: float | None = None,
    note: str = "",
) -> Difference:
    return Difference(
        value=value,
        interval=interval,
        p_value=p_value,
        p_exact=None,
        lower=bounds[0],
        upper=bounds[1],
        method=_method(first),
        bounds_method=f"augmented {_method(first)}",
        n=n,
        clusters=clusters,
        deviation=None if error is None else error * math.sqrt(n),
        span=1.0,
        note=note,
    )


def value_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return 0.0, 1.0


def higher_is_better(measure: Measure, facts: MetricFacts) -> bool:
    """Return True for every metric: a larger area separates the labels better."""
    return True


def _method(prepared: Prepared) -> str:
    return METHOD if prepared.clusters is None else CLUSTERED
