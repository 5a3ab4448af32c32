"""The statistics that targets and comparisons may use, one row each. No other module knows them by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from pytest_crucible.measures import auroc, calibration, means, percentiles
from pytest_crucible.measures.row import GEOMETRIC_MEANS, RATIO_OF_MEANS, Statistic
from pytest_crucible.records import Contrast, Measure, MetricFacts


def _lazy(module: str, function: str, **options: Any) -> Callable[..., Any]:
    """Return a function of `pytest_crucible.measures` that is imported when it is called.

    Most sessions need none of them, and some need most of scipy.
    """

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"pytest_crucible.measures.{module}"), function)(*arguments, **options)

    return call


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
    Statistic(
        name="gap",
        title="gap between slices",
        takes=("metric",),
        takes_more=True,
        example="gap(accuracy by topic) <= 0.05",
        prepare=_lazy("slices", "prepare"),
        estimate=_lazy("slices", "estimate", kind="gap"),
        bound=_lazy("slices", "bound_measure", kind="gap"),
        difference=_lazy("slices", "compare", kind="gap"),
        value_range=_lazy("slices", "gap_range"),
        higher_is_better=_lazy("slices", "smaller_is_fairer"),
        samples_to_prove=_lazy("slices", "samples_to_prove", kind="gap"),
        no_proof=_lazy("slices", "no_proof"),
        of_slices=True,
    ),
    Statistic(
        name="ratio",
        title="ratio of slices",
        takes=("metric",),
        example="ratio(accuracy by topic) >= 0.80",
        prepare=_lazy("slices", "prepare"),
        estimate=_lazy("slices", "estimate", kind="ratio"),
        bound=_lazy("slices", "bound_measure", kind="ratio"),
        difference=_lazy("slices", "compare", kind="ratio"),
        value_range=_lazy("slices", "ratio_range"),
        higher_is_better=_lazy("slices", "larger_is_fairer"),
        check=_lazy("slices", "ratio_problem"),
        samples_to_prove=_lazy("slices", "samples_to_prove", kind="ratio"),
        no_proof=_lazy("slices", "no_proof"),
        of_slices=True,
    ),
    Statistic(
        name="worst",
        title="worst slice",
        takes=("metric",),
        example="worst(accuracy by topic) >= 0.60",
        prepare=_lazy("slices", "prepare"),
        estimate=_lazy("worst_slices", "estimate_worst"),
        bound=_lazy("worst_slices", "bound_worst"),
        difference=_lazy("slices", "compare", kind="worst"),
        value_range=means.metric_range,
        higher_is_better=means.metric_direction,
        samples_to_prove=_lazy("worst_slices", "samples_to_prove_worst"),
        of_slices=True,
    ),
)
# The rows by the names that stored targets have.
STATISTICS = {row.name: row for row in _ROWS}
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
