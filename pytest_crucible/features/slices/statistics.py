"""The rows of gap, ratio and worst in the table of statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pytest_crucible.measures.declarations import mean_facts, metric_direction, metric_range
from pytest_crucible.measures.statistic import Statistic, lazy_function
from pytest_crucible.records import Contrast, Measure, MetricFacts


def _lazy(function: str, module: str = "extremes", **options: Any) -> Callable[..., Any]:
    return lazy_function(f"pytest_crucible.features.slices.{module}", function, **options)


def _no_proof(measure: Measure, facts: MetricFacts) -> str:
    """Explain why nothing is proven about means of slices: the metric's values have no declared ends."""
    if facts.kind in (None, "text", "binary") or all(map(math.isfinite, (facts.low, facts.high))):
        return ""
    value = "mean over slices" if measure.counts else measure.statistic
    return f"nothing is proven about a {value} of values without bounds: declare bounds of {facts.name!r}"


def _no_proof_of_mean(measure: Measure, facts: MetricFacts) -> str:
    """Likewise for a mean over slices, whose difference a reach bounds, too."""
    has_reach = isinstance(measure, Contrast) and facts.reach is not None
    return "" if has_reach else _no_proof(measure, facts)


def _ratio_problem(measure: Measure, facts: Sequence[MetricFacts]) -> str:
    for each in facts:
        if each.kind not in (None, "binary", "positive", "count") and each.low < 0:
            return f"a ratio needs values of at least 0: declare bounds of {each.name!r}, or use gap({each.name} {measure.by})"
    return ""


def _row(name: str, title: str, example: str, suffix: str = "", **declared: Any) -> Statistic:
    kind = {} if suffix else {"kind": name}
    return Statistic(
        name=name,
        title=title,
        takes=("metric",),
        example=example,
        prepare=_lazy("prepare"),
        estimate=_lazy(f"estimate{suffix}", **kind),
        bound=_lazy("bound_worst" if suffix else "bound_measure", **kind),
        difference=_lazy("compare", kind=name),
        samples_to_prove=_lazy(f"samples_to_prove{suffix}", **kind),
        of_slices=True,
        **declared,
    )


ROWS = (
    _row(
        "gap",
        "gap between slices",
        "gap(accuracy by topic) <= 0.05",
        takes_more=True,
        value_range=lambda measure, facts: (0.0, facts.high - facts.low),
        higher_is_better=lambda measure, facts: False,
        no_proof=_no_proof,
    ),
    _row(
        "ratio",
        "ratio of slices",
        "ratio(accuracy by topic) >= 0.80",
        value_range=lambda measure, facts: (0.0, 1.0),
        higher_is_better=lambda measure, facts: True,
        check=_ratio_problem,
        no_margin=lambda measure: (
            f"two ratios are compared by their ratio: leave it out, or compare gap({measure.metric} {measure.by})"
        ),
        no_proof=_no_proof,
    ),
    _row(
        "worst",
        "worst slice",
        "worst(accuracy by topic) >= 0.60",
        "_worst",
        value_range=metric_range,
        higher_is_better=metric_direction,
    ),
    Statistic(
        name="overall",
        title="mean over slices",
        takes=("metric",),
        example="overall(accuracy by task, macro) >= 0.80",
        prepare=_lazy("prepare", "overall"),
        estimate=_lazy("estimate", "overall"),
        bound=_lazy("bound", "overall"),
        difference=_lazy("compare", "overall"),
        value_range=metric_range,
        higher_is_better=metric_direction,
        no_proof=_no_proof_of_mean,
        planned_as=mean_facts,
        units=_lazy("make_units", "overall"),
        over_slices=True,
    ),
)
