"""The statistics that targets and comparisons may use, one row each, with those of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest_crucible.features import load_rows
from pytest_crucible.features.row import Feature
from pytest_crucible.measures import auroc, calibration, means, percentiles
from pytest_crucible.measures.row import GEOMETRIC_MEANS, RATIO_OF_MEANS, Statistic, lazy_function
from pytest_crucible.records import Contrast, Measure, MetricFacts


def _lazy(module: str, function: str) -> Callable[..., Any]:
    return lazy_function(f"pytest_crucible.measures.{module}", function)


MEAN = Statistic(
    name="mean",
    title="mean",
    takes=("metric",),
    example="mean(accuracy) >= 0.80",
    prepare=means.prepare,
    estimate=means.estimate_mean,
    bound=means.bound_mean,
    difference=means.compare_means,
    value_range=means.metric_range,
    higher_is_better=means.metric_direction,
    samples_to_prove=means.samples_to_prove_mean,
    no_proof=means.no_proof,
    planned_as=means.mean_facts,
    is_mean=True,
    fills_inapplicable=True,
)
AUROC = Statistic(
    name="auroc",
    title="area under the ROC curve",
    takes=("score",),
    example="auroc(score) >= 0.70",
    prepare=auroc.prepare,
    estimate=auroc.estimate,
    bound=auroc.bound,
    difference=auroc.compare,
    value_range=auroc.value_range,
    higher_is_better=auroc.higher_is_better,
    expected_problem=auroc.expected_problem,
)
PRECISION = Statistic(
    name="precision",
    title="precision over all texts",
    takes=("spans",),
    parts=("right", "predicted"),
    example="precision(pii) >= 0.95",
    prepare=_lazy("pooled", "prepare_counts"),
    estimate=_lazy("pooled", "estimate"),
    bound=_lazy("pooled", "bound_ratio"),
    difference=_lazy("pooled", "compare"),
    value_range=auroc.value_range,
    higher_is_better=auroc.higher_is_better,
)
_ROWS = (
    MEAN,
    Statistic(
        name="rate",
        title="rate",
        takes=("metric",),
        condition="always",
        example="rate(entailment >= 0.75) >= 0.45",
        prepare=means.prepare,
        estimate=means.estimate_mean,
        bound=means.bound_mean,
        difference=means.compare_means,
        value_range=means.rate_range,
        higher_is_better=means.metric_direction,
        samples_to_prove=means.samples_to_prove_mean,
        planned_as=means.mean_facts,
        of_replies=True,
        is_mean=True,
    ),
    Statistic(
        name="count",
        title="count",
        takes=("metric",),
        condition="optional",
        example="count(high_flags) == 0",
        prepare=means.prepare,
        estimate=means.estimate_count,
        bound=means.bound_count,
        difference=means.compare_counts,
        no_proof=means.no_proof,
        value_range=means.any_range,
        higher_is_better=means.metric_direction,
        of_replies=True,
        is_mean=True,
        is_total=True,
    ),
    Statistic(
        name="quantile",
        title="percentile",
        percent_prefix="p",
        takes=("metric",),
        example="p95(latency_s) <= 2",
        prepare=percentiles.prepare,
        estimate=percentiles.estimate,
        bound=percentiles.bound,
        difference=_lazy("percentile_differences", "compare"),
        of_replies=True,
        value_range=means.metric_range,
        higher_is_better=means.metric_direction,
    ),
    AUROC,
    replace(
        AUROC,
        name="average_precision",
        title="average precision",
        example="average_precision(score) >= 0.70",
        estimate=_lazy("average_precision", "estimate"),
        bound=_lazy("average_precision", "bound_area"),
        difference=_lazy("average_precision", "compare"),
    ),
    Statistic(
        name="f1",
        title="F1",
        takes=("flag",),
        example="f1(flagged) >= 0.80",
        prepare=_lazy("pooled", "prepare_f1"),
        estimate=_lazy("pooled", "estimate"),
        bound=_lazy("pooled", "bound_ratio"),
        difference=_lazy("pooled", "compare"),
        value_range=auroc.value_range,
        higher_is_better=auroc.higher_is_better,
        check=_lazy("pooled", "flags_problem"),
        expected_problem=auroc.labels_problem,
    ),
    PRECISION,
    replace(
        PRECISION,
        name="recall",
        title="recall over all texts",
        parts=("found", "annotated"),
        example="recall(pii.CREDIT_CARD) >= 0.95",
    ),
    Statistic(
        name="ece",
        title="calibration error",
        takes=("confidence", "accuracy"),
        example="ece(confidence, accuracy) <= 0.05",
        prepare=calibration.prepare,
        estimate=calibration.estimate,
        bound=calibration.bound,
        difference=calibration.compare,
        value_range=calibration.value_range,
        higher_is_better=calibration.higher_is_better,
        check=calibration.check,
    ),
)
# The rows by the names that stored targets have.
STATISTICS: dict[str, Statistic] = {row.name: row for row in (*_ROWS, *(row for _, row in load_rows("statistics")))}
GEOMETRIC = replace(
    MEAN,
    title=GEOMETRIC_MEANS,
    difference=_lazy("ratios", "compare_geometric_means"),
    check_values=_lazy("ratios", "zeros_problem"),
    no_proof=means.any_proof,
    # No interval of a ratio counts random factors.
    is_mean=False,
)
"""The row that compares an amount that is named alone: latency, tokens, cost."""
OF_MEANS = replace(
    MEAN,
    title=RATIO_OF_MEANS,
    difference=_lazy("ratios", "compare_means"),
    no_proof=_lazy("ratios", "no_proof_of_means"),
    is_mean=False,
)
"""The row that compares an amount that is named in `mean(...)`."""


def comparison_row(measure: Measure, facts: MetricFacts) -> Statistic:
    """Return the row that compares two arms. It follows from the declarations alone, never from values.

    A margin or relevant difference in the metric's own units compares means.
    """
    in_units = isinstance(measure, Contrast) and measure.limit is not None and not measure.is_relative
    if measure.statistic != MEAN.name or in_units or facts.kind != "positive":
        return STATISTICS[measure.statistic]
    return OF_MEANS if measure.by_mean else GEOMETRIC


def feature_of(measure: Measure) -> Feature | None:
    """Return the feature that a measure's statistic belongs to; None for the others."""
    return next((feature for feature, row in load_rows("statistics") if row.name == measure.statistic), None)
