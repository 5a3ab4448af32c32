"""Sentences on a comparison without a margin: the arms are not alike, or nothing shows that they are not.

That the replies of two arms differ, and that the mean is lower, are two claims. A permutation test proves the first one; the second
needs a bound of the mean.
"""

from __future__ import annotations

import math

from pytest_crucible.gate.phrases import POWER, bounds_text, lost_could_overturn, needed_text
from pytest_crucible.records import Comparison, State
from pytest_crucible.stats.number_format import number, p_equals, ratio


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
    p = p_equals(comparison.p_adjusted).replace("p", f"{_adjusted(comparison)}{name}", 1)
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


def _adjusted(comparison: Comparison) -> str:
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
