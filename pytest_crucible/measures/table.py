"""The statistics that targets and comparisons may use, one row each, and targets and margins that no value could miss or meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest_crucible.features import load_rows
from pytest_crucible.features.row import Feature
from pytest_crucible.measures import declarations
from pytest_crucible.measures.statistic import GEOMETRIC_MEANS, RATIO_OF_MEANS, Statistic, lazy_function
from pytest_crucible.records import Contrast, Measure, MetricFacts, Target


def _lazy(module: str, function: str) -> Callable[..., Any]:
    return lazy_function(f"pytest_crucible.measures.{module}", function)


def _functions_of(module: str, functions: str) -> dict[str, Any]:
    """Return the functions of a row that prepare the scores, estimate, bound, and compare two arms."""
    names = zip(("prepare", "estimate", "bound", "difference"), functions.split(), strict=True)
    return {name: _lazy(module, function) for name, function in names}


def _higher_is_better(measure: Measure, facts: MetricFacts) -> bool:
    return True


MEAN = Statistic(
    name="mean",
    title="mean",
    takes=("metric",),
    example="mean(accuracy) >= 0.80",
    **_functions_of("means", "prepare estimate_mean bound_mean compare_means"),
    value_range=declarations.metric_range,
    higher_is_better=declarations.metric_direction,
    samples_to_prove=_lazy("means", "samples_to_prove_mean"),
    no_proof=_lazy("means", "no_proof"),
    planned_as=declarations.mean_facts,
    is_mean=True,
    fills_inapplicable=True,
)
PASS_ALL = Statistic(
    name="pass^",
    title="chance that all draws pass",
    takes=("metric",),
    condition="optional",
    example="pass^3(accuracy) >= 0.80",
    chances=lazy_function("pytest_crucible.stats.means.repeats", "all_chances"),
    prepare=_lazy("draws", "prepare"),
    estimate=_lazy("draws", "estimate"),
    bound=_lazy("means", "bound_mean"),
    difference=_lazy("means", "compare_means"),
    value_range=declarations.rate_range,
    higher_is_better=declarations.metric_direction,
    check=_lazy("draws", "check"),
    check_values=_lazy("draws", "check_values"),
    samples_to_prove=_lazy("means", "samples_to_prove_mean"),
    planned_as=_lazy("draws", "planned_as"),
    is_mean=True,
)
AUROC = Statistic(
    name="auroc",
    title="area under the ROC curve",
    takes=("score",),
    example="auroc(score) >= 0.70",
    **_functions_of("auroc", "prepare estimate bound compare"),
    value_range=declarations.rate_range,
    higher_is_better=_higher_is_better,
    expected_problem=_lazy("auroc", "expected_problem"),
)
PRECISION = Statistic(
    name="precision",
    title="precision over all texts",
    takes=("spans",),
    parts=("right", "predicted"),
    example="precision(pii) >= 0.95",
    **_functions_of("pooled", "prepare_counts estimate bound_ratio compare"),
    value_range=declarations.rate_range,
    higher_is_better=_higher_is_better,
)
_ROWS = (
    MEAN,
    Statistic(
        name="rate",
        title="rate",
        takes=("metric",),
        condition="always",
        example="rate(entailment >= 0.75) >= 0.45",
        **_functions_of("means", "prepare estimate_mean bound_mean compare_means"),
        value_range=declarations.rate_range,
        higher_is_better=declarations.metric_direction,
        samples_to_prove=_lazy("means", "samples_to_prove_mean"),
        planned_as=declarations.mean_facts,
        of_replies=True,
        is_mean=True,
    ),
    Statistic(
        name="count",
        title="count",
        takes=("metric",),
        condition="optional",
        example="count(high_flags) == 0",
        **_functions_of("means", "prepare estimate_count bound_count compare_counts"),
        no_proof=_lazy("means", "no_proof"),
        value_range=declarations.any_range,
        higher_is_better=declarations.metric_direction,
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
        **_functions_of("percentiles", "prepare estimate bound compare"),
        of_replies=True,
        value_range=declarations.metric_range,
        higher_is_better=declarations.metric_direction,
    ),
    PASS_ALL,
    replace(
        PASS_ALL,
        name="pass@",
        title="chance that some draw passes",
        example="pass@3(accuracy) >= 0.80",
        chances=lazy_function("pytest_crucible.stats.means.repeats", "any_chances"),
    ),
    AUROC,
    replace(
        AUROC,
        name="average_precision",
        title="average precision",
        example="average_precision(score) >= 0.70",
        estimate=_lazy("pooled", "estimate_average_precision"),
        bound=_lazy("pooled", "bound_average_precision"),
        difference=_lazy("pooled", "compare_average_precision"),
    ),
    Statistic(
        name="f1",
        title="F1",
        takes=("flag",),
        example="f1(flagged) >= 0.80",
        **_functions_of("pooled", "prepare_f1 estimate bound_ratio compare"),
        value_range=declarations.rate_range,
        higher_is_better=_higher_is_better,
        check=_lazy("pooled", "flags_problem"),
        expected_problem=_lazy("auroc", "labels_problem"),
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
        may_omit_last=True,
        example="ece(confidence, accuracy) <= 0.05",
        **_functions_of("calibration", "prepare estimate bound compare"),
        value_range=declarations.rate_range,
        higher_is_better=lambda measure, facts: False,
        check=_lazy("calibration", "check"),
    ),
)
# The rows by the names that stored targets have.
STATISTICS: dict[str, Statistic] = {row.name: row for row in (*_ROWS, *(row for _, row in load_rows("statistics")))}
GEOMETRIC = replace(
    MEAN,
    title=GEOMETRIC_MEANS,
    difference=_lazy("ratios", "compare_geometric_means"),
    check_values=_lazy("ratios", "zeros_problem"),
    no_proof=declarations.any_proof,
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


def target_problem(target: Target, facts: MetricFacts) -> str:
    """Explain a target on a value that its statistic can never have, most often a percentage; empty if it can.

    >>> from pytest_crucible.records import Target
    >>> share = Target(text="ok <= 80", metric="ok", relation="<=", value=80)
    >>> target_problem(share, MetricFacts(name="ok", kind="binary", low=0, high=1)).partition(":")[0]
    "target 'ok <= 80' asks for 80, but 'ok' lies between 0 and 1"
    """
    what = f"target {target.text!r}"
    low, high = STATISTICS[target.statistic].value_range(target, facts)
    if not low <= target.value <= high:
        return (
            f"{what} asks for {target.value:g}, but {target.expression!r} lies between {low:g} and {high:g}: "
            "write a value in that range, a percentage as a fraction"
        )
    return _condition_problem(what, target, facts)


def contrast_problem(contrast: Contrast, facts: MetricFacts) -> str:
    """Explain a margin or a relevant difference that no two values could exceed; empty if they could."""
    what = f"ab_compare({contrast.expression!r})"
    if contrast.is_relative:
        return _relative_problem(what, contrast, facts)
    low, high = STATISTICS[contrast.statistic].value_range(contrast, facts)
    is_reach = contrast.statistic == MEAN.name and facts.reach is not None
    if is_reach and contrast.limit is not None and contrast.limit >= facts.largest_change:
        return (
            f"{what} has {_limit_name(contrast)}={contrast.limit:g}, and by its declared reach no sample changes by more than "
            f"{facts.largest_change:g}: write {_MEANINGS[_limit_name(contrast)]}, or a larger reach"
        )
    if contrast.limit is not None and contrast.limit >= high - low:
        return (
            f"{what} has {_limit_name(contrast)}={contrast.limit:g}, and no two values are further apart than {high - low:g}: "
            f"write {_MEANINGS[_limit_name(contrast)]}"
        )
    return _condition_problem(what, contrast, facts)


def bounds_problem(measure: Measure, facts: MetricFacts) -> str:
    """Explain a metric whose mean no confidence sequence can bound; empty if one can."""
    if measure.inner_relation is not None or (math.isfinite(facts.low) and math.isfinite(facts.high)):
        return ""
    if isinstance(measure, Contrast) and math.isfinite(facts.largest_change):
        return ""
    return f"--crucible-stop needs bounded metrics and {facts.name!r} has no bounds: declare @metric(bounds=(0, 500))"


_MEANINGS = {
    "margin": "how much worse is still good enough, such as 0.05",
    "relevant": "the smallest difference that matters, such as 0.02",
}


def _limit_name(contrast: Contrast) -> str:
    """Return the argument that the limit was written as."""
    return "margin" if contrast.relevant is None else "relevant"


def _relative_problem(what: str, contrast: Contrast, facts: MetricFacts) -> str:
    """Explain why a share does not suit a metric whose arms are not compared by a ratio."""
    if facts.kind is None or comparison_row(contrast, facts) is not STATISTICS[contrast.statistic]:
        return ""
    return (
        f"{what} has {_limit_name(contrast)}='{contrast.limit_text}', and {facts.name!r} is not an amount: write it in the "
        "metric's own units, such as 0.05, or declare kind='positive'"
    )


def _condition_problem(what: str, measure: Measure, facts: MetricFacts) -> str:
    """Explain a condition that holds for all values, or for none."""
    limit = measure.inner_value
    if limit is None or facts.low <= limit <= facts.high:
        return ""
    return (
        f"{what} counts where {measure.metric} {measure.inner_relation} {limit:g}, but {measure.metric!r} lies between "
        f"{facts.low:g} and {facts.high:g}: write a value in that range, a percentage as a fraction"
    )
