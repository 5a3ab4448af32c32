"""Reasons of verdicts in a few words, and the sample sizes that would decide."""

from __future__ import annotations

from pytest_crucible.gate.decide import holds
from pytest_crucible.records import BoundedValue, Comparison, State, TargetResult
from pytest_crucible.records.number_format import number
from pytest_crucible.stats.measures.table import STATISTICS

_OPPOSITES = {">=": "<", "<=": ">", ">": "<=", "<": ">="}


def lost_could_overturn(lost: int) -> str:
    """Say that a proof does not hold for every value of the lost samples.

    >>> lost_could_overturn(1)
    'proven on the scored samples; the 1 lost sample could still overturn it'
    """
    return f"proven on the scored samples; {lost_samples_text(lost)} could still overturn it"


def lost_samples_text(lost: int) -> str:
    return f"the {lost:,} lost {'sample' if lost == 1 else 'samples'}"


def target_reason(result: TargetResult, state: State, proven: bool) -> str:
    """Return which bound proves a target, or how many samples would."""
    if result.estimate.value is None:
        return result.note or "no sample was scored"
    if result.target.relation == "==" and state == "met" and result.target.value == 0:
        upper = result.evidence.observed.upper
        share = (
            upper if upper is None or not STATISTICS[result.target.statistic].is_total else upper / result.estimate.n
        )
        rate = "" if share is None else f"; the rate may be as high as {share:.3g}"
        return f"0 of {result.estimate.n}{rate}"
    evidence = _bound_against_target(result, state, proven)
    if proven:
        return evidence
    head = "not proven either way" if state == "undecided" else "unproven"
    needed = "" if result.needed is None else f"; proof needs about n={result.needed:,} at this estimate"
    return f"{head}{f': {evidence}' if evidence else ''}{needed}"


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
    return f"one-sided bound {_digits_for(bound, relation, target.value)} {relation} target {goal}"


def _both_bounds(reading: BoundedValue, goal: str) -> str:
    if reading.lower is None or reading.upper is None:
        return ""
    return f"one-sided bounds {reading.lower:.3g} and {reading.upper:.3g}{goal}"


def _digits_for(bound: float, relation: str, value: float) -> str:
    """Return the bound with three digits, or as many as its relation to the target needs.

    >>> _digits_for(0.6849, "<", 0.8), _digits_for(0.94996, "<", 0.95), _digits_for(1999.7, "<", 2000)
    ('0.685', '0.94996', '1,999.7')
    """
    texts = (f"{bound:,.{k}f}" if abs(bound) >= 1000 else f"{bound:.{k + 3}g}" for k in range(14))
    return next((text for text in texts if holds(relation, float(text.replace(",", "")), value)), repr(bound))


def comparison_reason(comparison: Comparison, state: State, proven: bool, alpha: float) -> str:
    """Return what is proven, or what these samples can show and how many would decide."""
    if comparison.difference is None or comparison.evidence.observed.p_value is None:
        return comparison.note or "too few pairs"
    if comparison.contrast.margin is not None:
        return _margin_reason(comparison, state)
    claim = "an improvement" if comparison.difference > 0 else "a regression"
    if proven:
        return f"{claim} is proven"
    if comparison.p_adjusted is not None and comparison.p_adjusted <= alpha:
        return f"{claim} is {lost_could_overturn(comparison.lost)}"
    sees = (
        ""
        if comparison.detectable is None
        else f"; n={comparison.pairs:,} can detect differences of {comparison.detectable:.3g} or more"
    )
    needed = "" if comparison.needed is None else f"; about n={comparison.needed:,} would decide at this difference"
    if state == "undecided":
        return f"no improvement is proven{needed}"
    return f"no regression is proven{_not_excluded(comparison)}{sees}{needed}"


def _not_excluded(comparison: Comparison) -> str:
    """Say how much worse the candidate may be: without it, "met" would read as if it were known to be no worse."""
    interval = comparison.interval
    if interval is None or interval.low >= 0:
        return ""
    return f" (differences down to {number(interval.low, interval)} cannot be excluded)"


def _margin_reason(comparison: Comparison, state: State) -> str:
    observed, margin = comparison.evidence.observed, comparison.contrast.margin or 0.0
    if observed.lower is None or observed.upper is None:
        return comparison.note or "these data have no bound"
    bounds = f"one-sided bounds {observed.lower:+.3g} and {observed.upper:+.3g}, margin {margin:g}"
    if state != "undecided":
        return bounds
    needed = "" if comparison.needed is None else f"; about n={comparison.needed:,} would decide at this difference"
    return f"{bounds}{needed}"
