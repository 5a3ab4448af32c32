"""The evidence without the samples that a plan excludes, next to the evidence of all samples. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.pool import Pool
from pytest_crucible.analyse.stopping import cut_to_samples, keep_samples
from pytest_crucible.records import Analysis, ArmOutcomes, Comparison, ReducedEvidence, TargetResult


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
