"""Targets that no scores of the remaining samples can meet any more. Pure functions.

Nothing is estimated, so this costs no alpha: the best value that is still possible is compared with the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable, score_table
from pytest_crucible.analyse.statistics import inapplicable_samples, prepare, row_of
from pytest_crucible.analyse.stopping import keep_answers
from pytest_crucible.measures.table import bounds_problem
from pytest_crucible.records import Target

STATISTICS = ("mean", "rate", "count")
"""Statistics whose extremes are those of the single scores."""
# A sum of thousands of scores is not exact, and the end must not come too early.
_ROUNDING = 1e-9


def out_of_reach_after(inputs: AnalysisInputs, order: Sequence[int], *, strict: bool = False) -> int | None:
    """Return after how many samples of the order some target could not be met any more; None if all could be.

    `order` ends with the last sample that is complete in all arms; samples after it may have any score. With `strict`,
    targets need proof, and none is decided by its estimate.
    """
    if strict or not out_of_reach(inputs, order):
        return None
    low, high = 0, len(order)
    # Each further sample only narrows what is possible, so the first end is found by bisection.
    while high - low > 1:
        middle = (low + high) // 2
        if out_of_reach(inputs, order[:middle]):
            high = middle
        else:
            low = middle
    return high


def out_of_reach(inputs: AnalysisInputs, answered: Sequence[int]) -> list[Target]:
    """Return the targets that cannot be met any more when all other samples than those `answered` may have any score."""
    targets = [target for target in inputs.plan.targets if _is_decided_by_estimate(target)]
    if not targets:
        return []
    candidate = keep_answers(inputs.answers[0], answered)
    variants = {name: (keep_answers(arms[0], answered), *arms[1:]) for name, arms in inputs.variants.items()}
    known = replace(inputs, answers=(candidate, *inputs.answers[1:]), variants=variants)
    table = score_table(known)
    return [target for target in targets if table.has(target) and not _can_be_met(target, table)]


def _is_decided_by_estimate(target: Target) -> bool:
    return target.decide == "point" and target.statistic in STATISTICS


def _can_be_met(target: Target, table: ScoreTable) -> bool:
    metrics = table.arm(target, 0)
    # Without bounds, one more score can make up for everything.
    if bounds_problem(target, metrics[0].facts):
        return True
    applicable = ~inapplicable_samples(metrics)
    lowest, highest = (
        row_of(target).estimate(prepare(target, metrics, table.attributes, applicable, end), 0.95).value
        for end in ("low", "high")
    )
    if lowest is None or highest is None:
        return True
    slack = _ROUNDING * max(1.0, abs(target.value))
    return {
        ">": highest > target.value,
        "<": lowest < target.value,
        ">=": highest >= target.value - slack,
        "<=": lowest <= target.value + slack,
        "==": lowest - slack <= target.value <= highest + slack,
    }[target.relation]
