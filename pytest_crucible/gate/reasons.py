"""Why a verdict is what it is, in a few words, and what it would take to decide."""

from __future__ import annotations

from pytest_crucible.records import Comparison, State, TargetResult


def target_reason(result: TargetResult, state: State, proven: bool) -> str:
    """Which bound proves it, or how many samples would."""
    if result.estimate.value is None:
        return "no sample was scored"
    if result.target.relation == "==" and state == "met" and result.target.value == 0:
        upper = result.evidence.observed.upper
        share = upper if upper is None or result.target.statistic != "count" else upper / result.estimate.n
        rate = "" if share is None else f"; it may be up to {share:.3g} of all"
        return f"none in these n={result.estimate.n}{rate}"
    if proven:
        return _proof(result, state)
    needed = "" if result.needed is None else f"; proof needs about n={result.needed:,} at this estimate"
    return f"{'not proven either way' if state == 'undecided' else 'unproven'}{needed}"


def _proof(result: TargetResult, state: State) -> str:
    """Which bound settles it: the one on the target's side when it is missed, the one away from it when it is met."""
    reading, above = result.evidence.observed, result.target.relation.startswith(">")
    if result.target.relation == "==":
        return "the one-sided bounds rule it out"
    bound = reading.lower if above == (state == "met") else reading.upper
    return f"the one-sided bound {bound:.3g} {'proves it' if state == 'met' else 'rules it out'}"


def comparison_reason(one: Comparison, state: State, proven: bool, alpha: float) -> str:
    """What is proven, or what these samples can show and how many would decide."""
    if one.difference is None or one.evidence.observed.p_value is None:
        return one.note or "too few pairs"
    if one.contrast.margin is not None:
        return _margin_reason(one, state)
    claim = "an improvement" if one.difference > 0 else "a regression"
    if proven:
        return f"{claim} is proven"
    if one.p_adjusted is not None and one.p_adjusted <= alpha:
        return f"{claim} is proven on what was observed, but not whatever the {one.lost:,} lost are"
    sees = "" if one.detectable is None else f"; n={one.pairs:,} shows differences from {one.detectable:.3g}"
    needed = "" if one.needed is None else f"; about n={one.needed:,} would decide at this difference"
    if state == "undecided":
        return f"no improvement is proven{needed}"
    return f"no difference is proven{sees}{needed}"


def _margin_reason(one: Comparison, state: State) -> str:
    observed, margin = one.evidence.observed, one.contrast.margin or 0.0
    if observed.lower is None or observed.upper is None:
        return one.note or "no bound can be had from these data"
    bounds = f"one-sided bounds {observed.lower:+.3g} and {observed.upper:+.3g}, margin {margin:g}"
    if state != "undecided":
        return bounds
    needed = "" if one.needed is None else f"; about n={one.needed:,} would decide at this difference"
    return f"{bounds}{needed}"
