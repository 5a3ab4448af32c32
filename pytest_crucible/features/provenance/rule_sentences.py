"""The rule and the method by which a verdict was decided, as one line each."""

from __future__ import annotations

from pytest_crucible.features.provenance.questions import Asked
from pytest_crucible.records import Comparison, Contrast, Target, TargetResult
from pytest_crucible.report.verdicts import find_claim


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
