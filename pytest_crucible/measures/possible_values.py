"""Find targets and margins that no value could miss or meet, given the known facts of a metric.

The plan checks declared facts. The analysis checks again, because a kind that is inferred from values has its bounds only
then.
"""

from __future__ import annotations

import math

from pytest_crucible.measures.table import MEAN, STATISTICS, comparison_row
from pytest_crucible.records import Contrast, Measure, MetricFacts, Target


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
    """Explain a margin or a relevant difference that no two values could exceed; empty if they could.

    >>> wide = Contrast(metric="ok", baseline="v1", alternative="non-inferior", margin=5)
    >>> contrast_problem(wide, MetricFacts(name="ok", kind="binary", low=0, high=1)).partition(":")[0]
    "ab_compare('ok') has margin=5, and no two values are further apart than 1"
    """
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
