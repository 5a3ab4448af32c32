"""What the chosen method takes for granted, with what the data show about it: reported, never acted upon.

A test of normality that switched the method would change the question between two releases, and lose the error rate
(Rochon, Gondan & Kieser 2012, BMC Med Res Methodol 12:81).
"""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.declared import Arms, Observed
from pytest_crucible.stats.observations import Array, is_constant

MANY_CLUSTERS = 20
"""Below this the small-sample correction is doing real work."""


def of_one_arm(seen: Observed, repeats: tuple[int, ...]) -> tuple[str, ...]:
    """Of an estimate."""
    shape = [] if seen.scale == "binary" else [_nearly_normal("values", seen.values)]
    return tuple(text for text in (*_independence("samples", seen.groups), *shape, *_repeats(repeats)) if text)


def of_two_arms(arms: Arms, estimand: str, repeats: tuple[int, ...]) -> tuple[str, ...]:
    """Of a comparison."""
    seen = arms.differences
    of = "logarithms" if estimand == "ratio" else "differences"
    if seen is not None:
        shape = [] if arms.scale == "binary" and not arms.clustered else [_nearly_normal(of, _shown(arms, estimand))]
        return tuple(text for text in (*_independence("pairs", arms.groups), *shape, *_repeats(repeats)) if text)
    both = [_nearly_normal(f"{name} values", one.values) for name, one in _named(arms) if arms.scale != "binary"]
    return tuple(
        text
        for text in (
            "the arms saw different samples",
            *_independence("samples", arms.groups),
            *both,
            *_repeats(repeats),
        )
        if text
    )


def skewness(values: Array) -> float | None:
    """Third standardised moment; None below three values and where nothing varies.

    >>> round(skewness(np.array([0.0, 0.0, 0.0, 1.0])), 6)
    1.154701
    """
    if values.size < 3 or is_constant(values):
        return None
    centred = values - values.mean()
    centred /= np.abs(centred).max()  # neither a square nor a cube of it overflows, or vanishes
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _named(arms: Arms) -> tuple[tuple[str, Observed], tuple[str, Observed]]:
    return ("treatment", arms.treatment), ("control", arms.control)


def _shown(arms: Arms, estimand: str) -> Array:
    if estimand == "ratio" and arms.treatment.values.min() > 0 and arms.control.values.min() > 0:
        return np.log(arms.treatment.values) - np.log(arms.control.values)
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
    return f"the mean of {values.size} {what} is nearly normal (their skewness is {round(skew, 2) + 0.0:g})"


def _repeats(repeats: tuple[int, ...]) -> list[str]:
    """Of each arm how many."""
    if max(repeats) == 1:
        return []
    counts = " or ".join(str(count) for count in sorted(set(repeats)))
    return [f"{counts} repeats were averaged inside each sample"]
