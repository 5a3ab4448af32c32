"""Claims about a candidate that the same samples have chosen: they hold for all members of its family at once, by Bonferroni.

Intervals and bounds are computed at alpha / members, and p-values multiplied by the members, as `stats.compare_chosen_arm` does.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.analyse.p_values import map_p_values
from pytest_crucible.records import Analysis


def hold_for_all_members(analysis: Analysis) -> Analysis:
    """Return the analysis with p-values that hold for each member that could have been chosen."""
    members = analysis.plan.chosen_among
    if members == 1:
        return analysis

    def multiply(p_value: float) -> float:
        return min(1.0, p_value * members)

    return replace(analysis, comparisons=tuple(map_p_values(item, multiply) for item in analysis.comparisons))
