"""Reasons of verdicts in a few words, and the sample sizes that would decide."""

from __future__ import annotations

from pytest_crucible.gate.decide import (
    excludes_relevant_regression,
    holds,
    proves_equivalence,
    proves_improvement,
)
from pytest_crucible.gate.explain_differences import difference_reason, is_at_most, unproven_reason
from pytest_crucible.gate.phrases import POWER, bounds_text, lost_could_overturn, lost_samples_text, needed_text
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.records import BoundedValue, Comparison, State, TargetResult

_OPPOSITES = {">=": "<", "<=": ">", ">": "<=", "<": ">="}


def target_reason(result: TargetResult, state: State, proven: bool) -> str:
    """Return which bound proves a target, or how many samples would."""
    if result.estimate.value is None:
        return result.note or "no sample was scored"
    if result.target.relation == "==" and state == "met" and result.target.value == 0:
        upper = result.evidence.observed.upper
        estimate = result.estimate
        size = estimate.n if estimate.replies is None else estimate.replies
        share = upper if upper is None or not STATISTICS[result.target.statistic].is_total else upper / size
        rate = "" if share is None else f"; the rate may be as high as {share:.3g}"
        return f"0 of {size}{'' if estimate.replies is None else ' replies'}{rate}"
    evidence = _bound_against_target(result, state, proven)
    if STATISTICS[result.target.statistic].of_slices and result.note and evidence:
        evidence = f"{evidence}; {result.note}"
    if proven:
        return evidence
    head = "not proven either way" if state == "undecided" else "unproven"
    needed = "" if result.needed is None else f"; proof needs about n={result.needed:,} at this estimate{POWER}"
    note = f"; {result.note}" if result.note and not evidence else ""
    return f"{head}{f': {evidence}' if evidence else ''}{needed}{note}"


def _bound_against_target(result: TargetResult, state: State, proven: bool) -> str:
    """Return the bound that settles a target, or would: `one-sided bound 0.685 < target 0.80`.

    A target is met for certain by the bound on its own side, and missed for certain by the other one.
    """
    target, reading = result.target, result.evidence.observed
    goal = target.text.rpartition(target.relation)[2].strip()
    if target.relation == "==" or state == "undecided":
        return _both_bounds(reading, f" exclude target {goal}" if proven else f", target {goal}")
    bound = reading.lower if target.relation.startswith(">") == (state == "met") else reading.upper
    if bound is None:
        return ""
    relation = target.relation if holds(target.relation, bound, target.value) else _OPPOSITES[target.relation]
    of_slices = reading.lower_of if bound == reading.lower else reading.upper_of
    between = f" ({of_slices})" if of_slices else ""
    return f"one-sided bound {_digits_for(bound, relation, target.value)} {relation} target {goal}{between}"


def _both_bounds(reading: BoundedValue, goal: str) -> str:
    if reading.lower is None or reading.upper is None:
        return ""
    if reading.lower_of == reading.upper_of:
        between = f" ({reading.lower_of})" if reading.lower_of else ""
        return f"one-sided bounds {reading.lower:.3g} and {reading.upper:.3g}{goal}{between}"
    lower, upper = f"{reading.lower:.3g} ({reading.lower_of})", f"{reading.upper:.3g} ({reading.upper_of})"
    return f"one-sided bounds {lower} and {upper}{goal}"


def _digits_for(bound: float, relation: str, value: float) -> str:
    """Return the bound with three digits, or as many as its relation to the target needs.

    >>> _digits_for(0.6849, "<", 0.8), _digits_for(0.94996, "<", 0.95), _digits_for(1999.7, "<", 2000)
    ('0.685', '0.94996', '1,999.7')
    """
    texts = (f"{bound:,.{k}f}" if abs(bound) >= 1000 else f"{bound:.{k + 3}g}" for k in range(14))
    return next((text for text in texts if holds(relation, float(text.replace(",", "")), value)), repr(bound))


def comparison_reason(comparison: Comparison, state: State, proven: bool, alpha: float) -> str:
    """Return the proven claim, or the difference that these samples can show and how many would decide."""
    contrast, observed = comparison.contrast, comparison.evidence.observed
    if excludes_relevant_regression(contrast, observed):
        return _excluded_reason(comparison, proven, alpha)
    if comparison.difference is None or observed.p_value is None:
        return comparison.note or "too few pairs"
    if contrast.margin is not None:
        return _margin_reason(comparison, state)
    if proves_improvement(contrast, observed):
        return _improvement_reason(comparison, proven)
    if is_at_most(comparison.p_adjusted, alpha) and comparison.difference:
        return difference_reason(comparison, state, proven, alpha)
    return unproven_reason(comparison, state, alpha)


def _improvement_reason(comparison: Comparison, proven: bool) -> str:
    if not proven:
        return f"an improvement is {lost_could_overturn(comparison.lost)}"
    return f"an improvement is proven ({bounds_text(comparison)})"


def _excluded_reason(comparison: Comparison, proven: bool, alpha: float) -> str:
    """Say that a regression of the relevant size is excluded, and whether the arms are proven equivalent."""
    evidence, relevant = comparison.evidence, f"the relevant {comparison.contrast.limit_text}"
    if not proven:
        lost = lost_samples_text(comparison.lost)
        return f"a regression of {relevant} is excluded on the scored samples; {lost} could hide one"
    bounds = f" ({bounds_text(comparison)})"
    differs = is_at_most(comparison.proof_adjusted, alpha) and comparison.difference
    readings = (evidence.observed, evidence.worst, evidence.best)
    if not all(proves_equivalence(comparison.contrast, reading) for reading in readings):
        improved = differs and (comparison.difference or 0.0) > 0
        return f"an improvement is proven{bounds}" if improved else f"proven not worse by {relevant}{bounds}"
    size = f"{_size_text(comparison)}, below {relevant}" if differs else f"no difference of {relevant} or more"
    return f"proven equivalent: {size}{bounds}"


def _size_text(comparison: Comparison) -> str:
    """Return how much better or worse the candidate is: `worse by 0.0004`, or `worse (1.01 times the baseline)`."""
    difference = comparison.difference or 0.0
    word = "better" if difference > 0 else "worse"
    if comparison.ratio is not None:
        return f"{word} ({comparison.ratio.value:.3g} times the baseline)"
    return f"{word} by {abs(difference):.3g}"


def _margin_reason(comparison: Comparison, state: State) -> str:
    observed = comparison.evidence.observed
    if observed.lower is None or observed.upper is None:
        return comparison.note or "these data have no bound"
    bounds = f"{bounds_text(comparison)}, margin {comparison.contrast.limit_text}"
    return f"{bounds}{needed_text(comparison)}" if state == "undecided" else bounds
