"""Reasons of verdicts in a few words, and the sample sizes that would decide.

That the replies of two arms differ, and that the mean is lower, are two claims. A permutation test proves the first one; the second
needs a bound of the mean.
"""

from __future__ import annotations

import math

from pytest_crucible.gate.decide import (
    excludes_relevant_regression,
    holds,
    lost_samples_text,
    proves_equivalence,
    proves_improvement,
)
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.records import BeyondReach, BoundedValue, Comparison, State, TargetResult
from pytest_crucible.stats.number_format import number, p_equals, ratio

POWER = " (80 % power)"


def lost_could_overturn(lost: int) -> str:
    """Say that a proof does not hold for every value of the lost samples.

    >>> lost_could_overturn(1)
    'proven on the scored samples; the 1 lost sample could still overturn it'
    """
    return f"proven on the scored samples; {lost_samples_text(lost)} could still overturn it"


def needed_text(comparison: Comparison) -> str:
    """Return the number of samples that would decide, with its power; empty if none is known."""
    needed = comparison.needed
    return "" if needed is None else f"; about n={needed:,} would decide at this difference{POWER}"


def bounds_text(comparison: Comparison) -> str:
    """Return the one-sided bounds of the difference, or of the ratio; the caller knows that there are some."""
    observed = comparison.evidence.observed
    lower, upper = (math.nan if bound is None else bound for bound in (observed.lower, observed.upper))
    if comparison.ratio is None:
        return f"one-sided bounds {lower:+.3g} and {upper:+.3g}"
    low, high = sorted(map(comparison.ratio.of, (lower, upper)))
    return f"one-sided bounds {low:.3g} and {high:.3g} times the baseline"


def is_at_most(p_value: float | None, alpha: float) -> bool:
    """Return whether there is a p-value, and it is at most alpha."""
    return p_value is not None and p_value <= alpha


def difference_reason(comparison: Comparison, state: State, proven: bool, alpha: float) -> str:
    """Return what is proven of arms that are not alike."""
    is_better = (comparison.difference or 0.0) > 0
    proven_on_scored = is_at_most(comparison.proof_adjusted, alpha)
    if comparison.arrangements is None and proven_on_scored:
        # One procedure has both the test and the bounds.
        claim = "an improvement" if is_better else "a regression"
        return f"{claim}{_proof(comparison, proven)}{_beside_relevant(comparison)}"
    word = _direction_word(comparison, is_better)
    name = "permutation p" if comparison.arrangements is not None else "p"
    p = p_equals(comparison.p_adjusted).replace("p", f"{_adjusted_prefix(comparison)}{name}", 1)
    head = f"the replies of {comparison.candidate} and {comparison.contrast.baseline} differ ({p})"
    observed = f"{comparison.candidate}'s observed {_statistic(comparison)} is {word}"
    if not proven_on_scored:
        unproven = f"that the {_statistic(comparison)} is {word} is not proven"
        return f"{head}; {observed}; {unproven}{_beside_relevant(comparison)}{_why_unproven(comparison)}"
    claim = f"that the {_statistic(comparison)} is {word}"
    return f"{head}; {claim}{_proof(comparison, proven)}{_beside_relevant(comparison)}"


def unproven_reason(comparison: Comparison, state: State, alpha: float) -> str:
    """Return what these samples could show, where nothing shows that the arms differ."""
    smallest = comparison.evidence.observed.smallest_p
    if state == "undecided" and comparison.contrast.alternative != "superior" and smallest is not None:
        units = f"{comparison.clusters or comparison.pairs} {'groups' if comparison.clusters else 'samples'}"
        unadjusted = " before it is adjusted" if smallest <= alpha else ""
        floor = f"no p-value of theirs is below {_round_down(smallest):.2g}{unadjusted}"
        return f"{units} are too few to show that the arms differ: {floor}"
    if state == "undecided":
        return f"no improvement is proven{_why_unproven(comparison)}{needed_text(comparison)}"
    if is_at_most(comparison.proof_adjusted, alpha):
        # Two valid tests of two questions may fall on either side of alpha.
        return (
            f"that the replies differ is not proven, although the bounds of the mean exclude 0{needed_text(comparison)}"
        )
    sees = (
        "" if comparison.detectable is None else f"; n={comparison.pairs:,} can detect {_detectable_text(comparison)}"
    )
    power = POWER if sees and comparison.needed is None else ""
    return f"no regression is proven{_not_excluded(comparison)}{sees}{power}{needed_text(comparison)}"


def _round_down(number: float) -> float:
    """Return the number with two digits, not above it.

    >>> _round_down(0.015625), _round_down(0.5)
    (0.015, 0.5)
    """
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return math.floor(number / step + 1e-9) * step


def _adjusted_prefix(comparison: Comparison) -> str:
    return "" if comparison.p_adjusted == comparison.p_value else "adjusted "


def _statistic(comparison: Comparison) -> str:
    return comparison.contrast.label if comparison.ratio is None else comparison.ratio.name


def _direction_word(comparison: Comparison, is_better: bool) -> str:
    """Return the direction in the metric's units, and its meaning where a lower value is better."""
    if comparison.higher_is_better:
        return "higher" if is_better else "lower"
    return "lower (better)" if is_better else "higher (worse)"


def _proof(comparison: Comparison, proven: bool) -> str:
    return " is proven" if proven else f" is {lost_could_overturn(comparison.lost)}"


def _why_unproven(comparison: Comparison) -> str:
    """Return why there is no bound, if there is none."""
    observed = comparison.evidence.observed
    has_bounds = observed.proof_p is not None and observed.lower is not None
    return f" ({comparison.note})" if comparison.note and not has_bounds else ""


def _beside_relevant(comparison: Comparison) -> str:
    """Say of a worse candidate whether the difference is the relevant one; empty without a relevant difference."""
    contrast, observed = comparison.contrast, comparison.evidence.observed
    if contrast.limit is None or observed.lower is None or observed.upper is None or (comparison.difference or 0.0) > 0:
        return ""
    bounds = f"({bounds_text(comparison)})"
    if observed.upper < -contrast.limit:
        return f", and so is that it is worse by more than the relevant {contrast.limit_text} {bounds}"
    return f"; that it is worse by the relevant {contrast.limit_text} or more is not excluded {bounds}"


def _not_excluded(comparison: Comparison) -> str:
    """Say how much worse the candidate may be: without it, "met" would read as if it were known to be no worse."""
    if comparison.contrast.relevant is not None and comparison.evidence.observed.lower is not None:
        return f", and the relevant {comparison.contrast.limit_text} is not excluded ({bounds_text(comparison)})"
    interval = comparison.interval
    if interval is None or interval.low >= 0:
        return ""
    if comparison.ratio is not None:
        worst = ratio(comparison.ratio.of(interval.low), comparison.ratio.interval)
        return f" ({worst} times the baseline cannot be excluded)"
    return f" (differences down to {number(interval.low, interval)} cannot be excluded)"


def _detectable_text(comparison: Comparison) -> str:
    """Return the smallest difference that these samples show with 80 % power; of a ratio, one above 1."""
    detectable = comparison.detectable or 0.0
    if comparison.ratio is not None:
        return f"ratios of {math.exp(detectable):.3g} or more"
    spread = f"differences of {detectable:.3g} or more"
    falls = comparison.detectable_falls
    if falls is None or falls <= detectable:
        return spread
    # The shape of most regressions, which takes a larger loss to be seen.
    return f"{spread}, or losses of {falls:.3g} where replies fall to the worst value"


def refuted_text(beyond: BeyondReach, metric: str) -> str:
    """Return why nothing is decided: `sample 'q17' changed by +0.62, more than the declared reach 0.25 (against v1): ...`."""
    others = beyond.samples - 1
    more = f", and so did {others:,} other {'sample' if others == 1 else 'samples'}" if others else ""
    return (
        f"sample {beyond.sample!r} changed by {beyond.change:+.3g}, more than the declared reach {beyond.reach:g} "
        f"(against {beyond.baseline}{more}): nothing is decided by {metric!r}; look at the sample, or raise reach"
    )


def suggestion_text(comparison: Comparison, state: State, proven: bool) -> str:
    """Return which reach would decide an open claim, to follow its reason; empty without one.

    It must not be chosen by these data, so it is about the next run.
    """
    reach = comparison.suggested_reach
    is_open = state == "undecided" or (state == "missed" and not proven)
    if reach is None or not is_open:
        return ""
    decides = "decide" if state == "undecided" else "prove it"
    return (
        f"; if no sample can change by more than {reach:g} (known from the metric, not from these data), declare "
        f"reach={reach:g} before the next run, with new replies: differences like these would then {decides}"
    )


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
    if STATISTICS[result.target.statistic].by_field and result.note and evidence:
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
