"""Phrases that the reasons of several kinds of verdicts share."""

from __future__ import annotations

import math

from pytest_crucible.records import Comparison

POWER = " (80 % power)"


def lost_could_overturn(lost: int) -> str:
    """Say that a proof does not hold for every value of the lost samples.

    >>> lost_could_overturn(1)
    'proven on the scored samples; the 1 lost sample could still overturn it'
    """
    return f"proven on the scored samples; {lost_samples_text(lost)} could still overturn it"


def lost_samples_text(lost: int) -> str:
    return f"the {lost:,} lost {'sample' if lost == 1 else 'samples'}"


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
