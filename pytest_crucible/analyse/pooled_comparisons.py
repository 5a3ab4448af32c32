"""Compares arms, and proves targets, on the replies of all sessions, at the error rate that this look may spend.

Sessions are rounds of a random factor, unless the suite declares rounds fixed.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable, analyse, score_table
from pytest_crucible.analyse.p_values import map_p_values
from pytest_crucible.analyse.pool import Pool
from pytest_crucible.analyse.refuted_reach import share_refutations
from pytest_crucible.analyse.statistics import Sessions
from pytest_crucible.records import Analysis, Comparison, Contrast, Look, Target, TargetResult


def decide_on_pools(analysis: Analysis, inputs: AnalysisInputs, *, alpha: float, family_size: int) -> Analysis:
    """Return the analysis with the comparisons of the pools in place of those of this session alone."""
    plan = inputs.plan
    pooled = {
        contrast: _compare(contrast, pool, inputs, analysis, alpha, family_size)
        for contrast, pool in inputs.pools.items()
    }
    proven = {target: _evaluate(target, pool, inputs, analysis, alpha) for target, pool in inputs.target_pools.items()}
    return replace(
        analysis,
        targets=tuple(proven.get(item.target) or item for item in analysis.targets),
        comparisons=share_refutations([pooled.get(item.contrast) or item for item in analysis.comparisons]),
        looks={contrast.subject(plan.candidate.name): pool.look for contrast, pool in inputs.pools.items()},
    )


def _compare(
    contrast: Contrast, pool: Pool, inputs: AnalysisInputs, analysis: Analysis, alpha: float, family_size: int
) -> Comparison | None:
    plan = inputs.plan
    baseline = next(arm for arm in plan.arms if arm.name == contrast.baseline)
    pooled = replace(
        inputs,
        plan=replace(
            plan,
            repeats=pool.repeats,
            rounds=pool.rounds,
            arms=(plan.candidate, baseline),
            contrasts=(contrast,),
            targets=(),
        ),
        answers=pool.answers,
        known_kinds={**inputs.known_kinds, **analysis.kinds},
    )
    # A p-value is two-sided, and only one side is the claim; a margin is decided by bounds, which are one-sided.
    by_bounds = contrast.margin is not None or contrast.alternative == "superior"
    spent = pool.look.alpha(alpha) * (1 if by_bounds else 2)
    table = _score_pool(pooled, pool)
    compared = next(iter(analyse(pooled, table, alpha=spent, family_size=family_size).comparisons), None)
    if compared is None:
        return None
    # The next pool would hold these replies again, and a reach must not be chosen by what it then decides.
    compared = replace(compared, suggested_reach=None)
    if contrast.relevant is None:
        return _spend(compared, pool.look)
    # The bounds that exclude a relevant regression are one-sided, as those of a margin.
    bounded = analyse(pooled, table, alpha=pool.look.alpha(alpha), family_size=family_size).comparisons[0]
    by_look = replace(compared, evidence=bounded.evidence)
    if bounded.evidence.observed.lower is not None:
        # The interval to show is that of the bounds, if there are some.
        by_look = replace(by_look, interval=bounded.interval, ratio=bounded.ratio)
    return _spend(by_look, pool.look)


def _evaluate(
    target: Target, pool: Pool, inputs: AnalysisInputs, analysis: Analysis, alpha: float
) -> TargetResult | None:
    plan = inputs.plan
    pooled = replace(
        inputs,
        plan=replace(
            plan, repeats=pool.repeats, rounds=pool.rounds, arms=(plan.candidate,), contrasts=(), targets=(target,)
        ),
        answers=pool.answers,
        known_kinds={**inputs.known_kinds, **analysis.kinds},
    )
    targets = analyse(pooled, _score_pool(pooled, pool), alpha=pool.look.alpha(alpha), family_size=1).targets
    return next(iter(targets), None)


def _score_pool(inputs: AnalysisInputs, pool: Pool) -> ScoreTable:
    table = score_table(inputs)
    sessions: Sessions = "paired" if pool.is_paired else "of each arm"
    return replace(table, attributes=replace(table.attributes, sessions=sessions))


def _spend(comparison: Comparison, look: Look) -> Comparison:
    """Return the comparison with its p-value scaled so that it can be compared with the session's alpha."""
    if comparison.contrast.margin is not None:
        return comparison
    return map_p_values(comparison, lambda p_value: min(p_value / (2 * look.alpha(1.0)), 1.0))
