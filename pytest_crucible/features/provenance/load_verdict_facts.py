"""Loads what is said of the verdicts of a run. It takes time, so it is computed only for the verdicts that are asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.features.provenance.fragility import MOST_SETS, measure_fragility
from pytest_crucible.features.provenance.influence import measure_influence
from pytest_crucible.features.provenance.movable import is_binary
from pytest_crucible.features.provenance.questions import Asked, Key, load_questions
from pytest_crucible.features.provenance.rough_decision import count_pairs
from pytest_crucible.features.provenance.verdict_facts import (
    Fragility,
    Influence,
    Pairs,
    VerdictFacts,
)
from pytest_crucible.features.provenance.what_if import Question
from pytest_crucible.records import Comparison, Contrast, Run, Target, TargetResult
from pytest_crucible.report.verdicts import difference_text, estimate_text, find_claim
from pytest_crucible.stats.interval import Interval
from pytest_crucible.store.runs import RunStore


def load_verdict_facts(
    store: RunStore,
    run: Run,
    keys: Collection[Key] | None = None,
    loaded: Mapping[str, AnalysisInputs] = MappingProxyType({}),
    *,
    most_sets: int = MOST_SETS,
) -> Mapping[Key, VerdictFacts]:
    """Return what is said of each verdict of a run, or of those with these keys, by nodeid and subject.

    `loaded` are inputs of its experiments that need not be read, by name. `most_sets` are the sets of answers that its
    fragility may try for one arm and direction.
    """
    p_values = _family(run)
    return {
        (item.verdict.nodeid, item.verdict.subject): _facts(run, item, p_values, most_sets)
        for item in load_questions(store, run, keys, loaded)
    }


def _facts(run: Run, item: Asked, p_values: list[float], most_sets: int) -> VerdictFacts:
    result, question = item.result, item.question
    numbers, value, interval = _numbers(result)
    p_adjusted, p_value = _p_values(item)
    undefined = item.undefined
    return VerdictFacts(
        verdict=item.verdict,
        numbers=numbers,
        value=value,
        interval=interval,
        n=None if result is None else result.estimate.n if isinstance(result, TargetResult) else result.pairs,
        lost=None if result is None else result.estimate.lost if isinstance(result, TargetResult) else result.lost,
        p_adjusted=p_adjusted,
        holm_position=None if p_value is None else p_values.index(p_value) + 1,
        family_size=run.family_size,
        rule=rule_sentence(item, run.alpha),
        method=method_sentence(item),
        measure=None if result is None else measure_of(result),
        metric=question.facts if question else None,
        pairs=_pairs(question) if question else None,
        fragility=measure_fragility(question, most_sets) if question else Fragility(undefined=undefined),
        influence=measure_influence(question) if question else Influence(unit="sample", undefined=undefined),
    )


def measure_of(result: TargetResult | Comparison) -> Target | Contrast:
    return result.target if isinstance(result, TargetResult) else result.contrast


def _numbers(result: TargetResult | Comparison | None) -> tuple[str, float | None, Interval | None]:
    if result is None:
        return "", None, None
    if isinstance(result, TargetResult):
        return estimate_text(result.estimate), result.estimate.value, result.estimate.interval
    ratio = result.ratio
    if ratio is not None:
        return difference_text(result), ratio.value, ratio.interval
    return difference_text(result), result.difference, result.interval


def _p_values(item: Asked) -> tuple[float | None, float | None]:
    """Return the adjusted p-value of a verdict that shares alpha, and its own."""
    if isinstance(item.result, Comparison) and item.result.contrast.shares_alpha:
        return item.result.p_adjusted, item.result.p_value
    claim = find_claim(item.verdict, item.analysis) if item.verdict.kind == "claim" else None
    return (claim.p_adjusted, claim.p_value) if claim is not None and claim.fails else (None, None)


def _family(run: Run) -> list[float]:
    """Return the p-values of the session's family that were measured, the smallest first."""
    comparisons = [
        pair.p_value for analysis in run.experiments for pair in analysis.comparisons if pair.contrast.shares_alpha
    ]
    claims = [
        claim.p_value
        for analysis in run.experiments
        for outcome in analysis.sections.values()
        for claim in outcome.claims
        if claim.fails
    ]
    return sorted(p_value for p_value in (*comparisons, *claims) if p_value is not None)


def _pairs(question: Question) -> Pairs | None:
    """Return the counts of pairs; None unless it compares one yes-or-no answer a sample and arm."""
    measure = question.measure
    arms = [question.table.arm(measure, number)[0].scores for number in question.numbers]
    is_plain = is_binary(measure, question.facts) and measure.statistic in ("mean", "rate")
    if not isinstance(measure, Contrast) or measure.unpaired or not is_plain or any(arm.units for arm in arms):
        return None
    both, ours, theirs, n = count_pairs(question)
    return Pairs(both=both, only_candidate=ours, only_baseline=theirs, neither=n - both - ours - theirs)


def rule_sentence(item: Asked, alpha: float) -> str:
    """Return when the verdict is missed or met."""
    result = item.result
    if isinstance(result, TargetResult):
        return _target_rule(result.target, alpha, item.strict)
    if isinstance(result, Comparison):
        return _comparison_rule(result.contrast, result.candidate, alpha)
    if item.verdict.kind == "claim" and find_claim(item.verdict, item.analysis) is not None:
        return f"claim of a section: missed when its p-value, adjusted, is at most alpha {alpha:g}"
    return ""


def _target_rule(target: Target, alpha: float, strict: bool) -> str:
    goal = f"{target.relation} {target.value:g}"
    if target.relation == "==":
        return f"quality target: met when the estimate is {goal}"
    if strict or target.decide == "bound":
        return f"quality target: met when a one-sided bound (alpha {alpha:g}) proves it, missed when the other one refutes it"
    return f"quality target: met when the estimate is {goal}; proven when the one-sided bound is (alpha {alpha:g})"


def _comparison_rule(contrast: Contrast, candidate: str, alpha: float) -> str:
    limit, bounds = contrast.limit_text, f"one-sided bounds, alpha {alpha:g}"
    if contrast.alternative == "non-inferior":
        return (
            f"non-inferiority gate: met when {candidate} is worse by less than {limit}, missed when by more ({bounds})"
        )
    if contrast.alternative == "equivalent":
        return f"equivalence gate: met when the difference is below {limit} on both sides, missed when it is above it ({bounds})"
    if contrast.alternative == "superior" and contrast.margin is not None:
        return (
            f"superiority gate: met when {candidate} is better by more than {limit}, missed when it is not ({bounds})"
        )
    worse = f"missed when the arms are not alike (alpha {alpha:g}) and {candidate}'s estimate is worse"
    if contrast.alternative == "superior":
        return f"superiority gate: met when {candidate} is proven better ({bounds}), {worse}"
    if contrast.relevant is not None:
        return f"regression gate: met when {candidate} is proven worse by less than {limit} ({bounds}); else {worse}"
    return f"regression gate: {worse}"


def method_sentence(item: Asked) -> str:
    """Return how the numbers of a verdict were computed, and from what; empty for a claim."""
    result = item.result
    if isinstance(result, TargetResult):
        groups = _groups(result.estimate.clusters)
        bounds = (
            "" if result.evidence.method in ("none", result.estimate.method) else f"; {result.evidence.method} (bounds)"
        )
        return f"{result.estimate.method}: {groups} (interval){bounds}"
    if isinstance(result, Comparison):
        arms = "arms with samples of their own" if result.contrast.unpaired else "arms paired by id"
        interval = result.interval.method if result.interval else ""
        is_one = interval in ("", result.method)
        of = "p and interval" if is_one and interval else "p"
        more = "" if is_one else f"; {interval} (interval)"
        return f"{result.method}: {arms}, {_groups(result.clusters)} ({of}){more}"
    return ""


def _groups(clusters: int | None) -> str:
    return "no groups" if clusters is None else f"{clusters:,} groups"
