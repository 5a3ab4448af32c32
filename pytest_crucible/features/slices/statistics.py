"""The rows of gap, ratio and worst in the table of statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pytest_crucible.measures.means import metric_direction, metric_range
from pytest_crucible.measures.row import Numbers, Statistic, lazy_function
from pytest_crucible.records import Measure, MetricFacts


def _lazy(function: str, **options: Any) -> Callable[..., Any]:
    return lazy_function("pytest_crucible.features.slices.extremes", function, **options)


def _gap_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return 0.0, facts.high - facts.low


def _ratio_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return 0.0, 1.0


def _smaller_is_fairer(measure: Measure, facts: MetricFacts) -> bool:
    return False


def _larger_is_fairer(measure: Measure, facts: MetricFacts) -> bool:
    return True


def _no_proof(measure: Measure, facts: MetricFacts) -> str:
    """Explain why nothing is proven about means of slices: the metric's values have no declared ends."""
    if facts.kind in (None, "text", "binary") or all(map(math.isfinite, (facts.low, facts.high))):
        return ""
    return f"nothing is proven about a {measure.statistic} of values without bounds: declare bounds of {facts.name!r}"


def _ratio_problem(measure: Measure, facts: Sequence[MetricFacts]) -> str:
    """Explain a ratio of values that may be negative; empty for others."""
    for each in facts:
        if each.kind not in (None, "binary", "positive", "count") and each.low < 0:
            return f"a ratio needs values of at least 0: declare bounds of {each.name!r}, or use gap({each.name} {measure.by})"
    return ""


def _no_margin(measure: Measure) -> str:
    return f"two ratios are compared by their ratio: leave it out, or compare gap({measure.metric} {measure.by})"


ROWS = (
    Statistic(
        name="gap",
        title="gap between slices",
        takes=("metric",),
        takes_more=True,
        example="gap(accuracy by topic) <= 0.05",
        prepare=_lazy("prepare"),
        estimate=_lazy("estimate", kind="gap"),
        bound=_lazy("bound_measure", kind="gap"),
        difference=_lazy("compare", kind="gap"),
        value_range=_gap_range,
        higher_is_better=_smaller_is_fairer,
        samples_to_prove=_lazy("samples_to_prove", kind="gap"),
        no_proof=_no_proof,
        of_slices=True,
    ),
    Statistic(
        name="ratio",
        title="ratio of slices",
        takes=("metric",),
        example="ratio(accuracy by topic) >= 0.80",
        prepare=_lazy("prepare"),
        estimate=_lazy("estimate", kind="ratio"),
        bound=_lazy("bound_measure", kind="ratio"),
        difference=_lazy("compare", kind="ratio"),
        value_range=_ratio_range,
        higher_is_better=_larger_is_fairer,
        check=_ratio_problem,
        no_margin=_no_margin,
        samples_to_prove=_lazy("samples_to_prove", kind="ratio"),
        no_proof=_no_proof,
        of_slices=True,
    ),
    Statistic(
        name="worst",
        title="worst slice",
        takes=("metric",),
        example="worst(accuracy by topic) >= 0.60",
        prepare=_lazy("prepare"),
        estimate=_lazy("estimate_worst"),
        bound=_lazy("bound_worst"),
        difference=_lazy("compare", kind="worst"),
        value_range=metric_range,
        higher_is_better=metric_direction,
        samples_to_prove=_lazy("samples_to_prove_worst"),
        of_slices=True,
    ),
)
