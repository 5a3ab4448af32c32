"""Analyses decided on other replies or for several candidates: on pools of sessions, without excluded samples, for a chosen arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_crucible.analyse.analysis import AnalysisInputs, ScoreTable, analyse, score_table
from pytest_crucible.analyse.pool import Pool
from pytest_crucible.analyse.reach import share_refutations
from pytest_crucible.analyse.statistics import Sessions
from pytest_crucible.analyse.stopping import cut_to_samples, keep_samples
from pytest_crucible.records import (
    Analysis,
    ArmOutcomes,
    BoundedValue,
    Comparison,
    Contrast,
    Look,
    ReducedEvidence,
    Target,
    TargetResult,
)


def map_p_values(comparison: Comparison, scale: Callable[[float], float]) -> Comparison:
    """Return the comparison with each p-value scaled, also those at the extremes of the lost samples."""

    def scale_known(p_value: float | None) -> float | None:
        return None if p_value is None else scale(p_value)

    def scale_value(value: BoundedValue) -> BoundedValue:
        p_values = value.p_value, value.proof_p, value.smallest_p
        p_value, proof_p, smallest_p = map(scale_known, p_values)
        return replace(value, p_value=p_value, proof_p=proof_p, smallest_p=smallest_p)

    evidence = comparison.evidence
    scaled: dict[str, Any] = {name: scale_value(getattr(evidence, name)) for name in ("observed", "worst", "best")}
    return replace(
        comparison,
        p_value=scale_known(comparison.p_value),
        p_exact=scale_known(comparison.p_exact),
        proof_p=scale_known(comparison.proof_p),
        evidence=replace(evidence, **scaled),
    )


def hold_for_all_members(analysis: Analysis) -> Analysis:
    """Return the analysis with p-values that hold for each member that could have been chosen."""
    members = analysis.plan.chosen_among
    if members == 1:
        return analysis

    def multiply(p_value: float) -> float:
        return min(1.0, p_value * members)

    return replace(analysis, comparisons=tuple(map_p_values(item, multiply) for item in analysis.comparisons))


def without_excluded(inputs: AnalysisInputs, kinds: Mapping[str, str]) -> AnalysisInputs | None:
    """Return the inputs without the samples that the plan excludes; None if it excludes none of the dataset.

    `kinds` are the metrics' kinds in all samples: fewer samples do not change them.
    """
    excluded = {name for exclusion in inputs.plan.exclusions for name in exclusion.sample_ids}
    positions = [position for position, name in enumerate(inputs.sample_ids) if name not in excluded]
    if len(positions) == len(inputs.sample_ids):
        return None

    def keep(answers: ArmOutcomes, repeats: int) -> ArmOutcomes:
        return keep_samples(answers, positions, samples=len(inputs.groups), repeats=repeats)

    def keep_in_pool(pool: Pool) -> Pool:
        return replace(pool, answers=tuple(keep(answers, pool.repeats) for answers in pool.answers))

    # Replies to twins go with their samples: an attacked prompt that was trained on flatters the candidate, too.
    return replace(
        cut_to_samples(inputs, positions),
        known_kinds={**inputs.known_kinds, **kinds},
        pools={contrast: keep_in_pool(pool) for contrast, pool in inputs.pools.items()},
        target_pools={target: keep_in_pool(pool) for target, pool in inputs.target_pools.items()},
    )


def add_reduced_evidence(whole: Analysis, reduced: Analysis) -> Analysis:
    """Return the analysis of all samples, with the evidence of the one without the excluded samples next to its own."""
    reason = " or ".join(dict.fromkeys(exclusion.reason for exclusion in whole.plan.exclusions))
    targets = {result.target: result for result in reduced.targets}
    comparisons = {comparison.contrast: comparison for comparison in reduced.comparisons}
    return replace(
        whole,
        targets=tuple(_reduce_target(result, targets.get(result.target), reason) for result in whole.targets),
        comparisons=tuple(
            _reduce_comparison(comparison, comparisons.get(comparison.contrast), reason)
            for comparison in whole.comparisons
        ),
    )


def _reduce_target(whole: TargetResult, rest: TargetResult | None, reason: str) -> TargetResult:
    if rest is None or whole.estimate.is_known:
        return whole
    excluded = whole.estimate.n - rest.estimate.n
    evidence = ReducedEvidence(
        evidence=rest.evidence, n=rest.estimate.n, lost=rest.estimate.lost, excluded=excluded, reason=reason
    )
    return replace(whole, reduced=evidence) if excluded else whole


def _reduce_comparison(whole: Comparison, rest: Comparison | None, reason: str) -> Comparison:
    if rest is None:
        return whole
    excluded = whole.pairs - rest.pairs
    evidence = ReducedEvidence(evidence=rest.evidence, n=rest.pairs, lost=rest.lost, excluded=excluded, reason=reason)
    return replace(whole, reduced=evidence) if excluded else whole


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
    pooled = _pool_inputs(inputs, analysis, pool, arms=(plan.candidate, baseline), contrasts=(contrast,), targets=())
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
    pooled = _pool_inputs(inputs, analysis, pool, arms=(inputs.plan.candidate,), contrasts=(), targets=(target,))
    targets = analyse(pooled, _score_pool(pooled, pool), alpha=pool.look.alpha(alpha), family_size=1).targets
    return next(iter(targets), None)


def _pool_inputs(inputs: AnalysisInputs, analysis: Analysis, pool: Pool, **fields: Any) -> AnalysisInputs:
    """Return the inputs with the replies of a pool, and with these fields of the plan."""
    plan = replace(inputs.plan, repeats=pool.repeats, rounds=pool.rounds, **fields)
    return replace(inputs, plan=plan, answers=pool.answers, known_kinds={**inputs.known_kinds, **analysis.kinds})


def _score_pool(inputs: AnalysisInputs, pool: Pool) -> ScoreTable:
    table = score_table(inputs)
    sessions: Sessions = "paired" if pool.is_paired else "of each arm"
    return replace(table, attributes=replace(table.attributes, sessions=sessions))


def _spend(comparison: Comparison, look: Look) -> Comparison:
    """Return the comparison with its p-value scaled so that it can be compared with the session's alpha."""
    if comparison.contrast.margin is not None:
        return comparison
    return map_p_values(comparison, lambda p_value: min(p_value / (2 * look.alpha(1.0)), 1.0))
