"""Assumptions of the chosen method, with what the data show about them. They are reported and choose nothing.

If a test of normality chose the method, the estimand could change between two runs, and the error rate would not hold
(Rochon, Gondan & Kieser 2012, BMC Med Res Methodol 12:81).
"""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import Array, is_constant
from pytest_crucible.stats.inputs import Arms, Observed

MANY_CLUSTERS = 20
"""Below this many clusters the small-sample correction changes the interval noticeably."""


def arm_assumptions(arm: Observed, repeats: tuple[int, ...]) -> tuple[str, ...]:
    """Return the assumptions of an estimate."""
    shape = [] if arm.scale == "binary" else [_nearly_normal("values", arm.values)]
    return tuple(text for text in (*_independence("samples", arm.groups), *shape, *_repeats(repeats)) if text)


def comparison_assumptions(arms: Arms, estimand: str, repeats: tuple[int, ...]) -> tuple[str, ...]:
    """Return the assumptions of a comparison."""
    differences = arms.differences
    of = "logarithms" if estimand == "ratio" else "differences"
    # Permutation tests and the bounds of a mean hold for every shape; a t interval does not.
    is_approximate = estimand == "ratio" or arms.scale == "unbounded"
    if differences is not None:
        shape = [_nearly_normal(of, _compared_values(arms, estimand))] if is_approximate else []
        return tuple(text for text in (*_independence("pairs", arms.groups), *shape, *_repeats(repeats)) if text)
    both = [_nearly_normal(f"{name} values", arm.values) for name, arm in _named_arms(arms) if is_approximate]
    return tuple(
        text
        for text in (
            "the arms were measured on different samples",
            *_independence("samples", arms.groups),
            *both,
            *_repeats(repeats),
        )
        if text
    )


def skewness(values: Array) -> float | None:
    """Return the third standardised moment; None below three values and when nothing varies.

    >>> round(skewness(np.array([0.0, 0.0, 0.0, 1.0])), 6)
    1.154701
    """
    # Two values are always symmetric, and equal values have no deviation to divide by.
    if values.size < 3 or is_constant(values):
        return None
    centred = values - values.mean()
    # Scaled to at most 1, so that no square or cube overflows or underflows to 0.
    centred /= np.abs(centred).max()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _named_arms(arms: Arms) -> tuple[tuple[str, Observed], tuple[str, Observed]]:
    return ("candidate", arms.candidate), ("baseline", arms.baseline)


def _compared_values(arms: Arms, estimand: str) -> Array:
    if estimand == "ratio" and arms.candidate.values.min() > 0 and arms.baseline.values.min() > 0:
        return np.log(arms.candidate.values) - np.log(arms.baseline.values)
    assert arms.differences is not None
    return arms.differences.values


def _independence(what: str, groups: int | None) -> list[str]:
    if groups is None:
        return [f"{what} are independent of each other"]
    return [f"clusters are independent of each other, {what} within one need not be"]


def _nearly_normal(what: str, values: Array) -> str:
    skew = skewness(values)
    if skew is None:
        return ""
    # Adding 0.0 turns -0.0 into 0.0.
    return f"the mean of {values.size} {what} is nearly normal (their skewness is {round(skew, 2) + 0.0:g})"


def _repeats(repeats: tuple[int, ...]) -> list[str]:
    """Return the sentence about the numbers of repeats in the arms; nothing if each sample has one."""
    if max(repeats) == 1:
        return []
    counts = " or ".join(str(count) for count in sorted(set(repeats)))
    return [f"{counts} repeats were averaged inside each sample"]
