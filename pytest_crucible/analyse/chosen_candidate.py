"""Claims about a candidate that the same samples have chosen: they hold for all members of its family at once, by Bonferroni.

Intervals and bounds are computed at alpha / members, and p-values multiplied by the members, as `stats.compare_chosen_arm` does.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.records import Analysis, BoundedValue, Comparison, Evidence


def hold_for_all_members(analysis: Analysis) -> Analysis:
    """Return the analysis with p-values that hold for each member that could have been chosen."""
    members = analysis.plan.chosen_among
    if members == 1:
        return analysis
    return replace(analysis, comparisons=tuple(_multiply(comparison, members) for comparison in analysis.comparisons))


def _multiply(comparison: Comparison, members: int) -> Comparison:
    evidence = comparison.evidence
    return replace(
        comparison,
        p_value=_times(comparison.p_value, members),
        p_exact=_times(comparison.p_exact, members),
        evidence=Evidence(
            observed=_times_value(evidence.observed, members),
            worst=_times_value(evidence.worst, members),
            best=_times_value(evidence.best, members),
            method=evidence.method,
        ),
    )


def _times_value(value: BoundedValue, members: int) -> BoundedValue:
    return replace(value, p_value=_times(value.p_value, members))


def _times(p_value: float | None, members: int) -> float | None:
    return None if p_value is None else min(1.0, p_value * members)
