"""The statistics that targets and comparisons may use, one row each. No other module knows them by name."""

from __future__ import annotations

from pytest_crucible.stats.measures import auroc, calibration, means, percentiles
from pytest_crucible.stats.measures.row import Statistic

MEAN = Statistic(
    name="mean",
    title="mean",
    takes=("metric",),
    example="mean(accuracy) >= 0.80",
    prepare=means.prepare,
    estimate=means.estimate_mean,
    bound=means.bound_mean,
    difference=means.compare_means,
    reach=means.metric_reach,
    higher_is_better=means.metric_direction,
    samples_to_prove=means.samples_to_prove_mean,
    planned_as=means.mean_facts,
    fills_inapplicable=True,
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
        reach=means.rate_reach,
        higher_is_better=means.metric_direction,
        samples_to_prove=means.samples_to_prove_mean,
        planned_as=means.mean_facts,
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
        reach=means.any_reach,
        higher_is_better=means.metric_direction,
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
        reach=means.metric_reach,
        higher_is_better=means.metric_direction,
    ),
    Statistic(
        name="auroc",
        title="area under the ROC curve",
        takes=("score",),
        example="auroc(score) >= 0.70",
        prepare=auroc.prepare,
        estimate=auroc.estimate,
        bound=auroc.bound,
        difference=auroc.compare,
        reach=auroc.reach,
        higher_is_better=auroc.higher_is_better,
        expected_problem=auroc.expected_problem,
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
        reach=calibration.reach,
        higher_is_better=calibration.higher_is_better,
        check=calibration.check,
    ),
)
# The rows by the names that stored targets have.
STATISTICS = {row.name: row for row in _ROWS}
