"""Power, sample size and provable margin of a non-inferiority test."""

from __future__ import annotations

from scipy.special import ndtri

from pytest_crucible.stats.arrays import check_share
from pytest_crucible.stats.planning.roots import round_up


def samples_for_margin(
    margin: float,
    deviation: float,
    *,
    difference: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Return the samples needed for a one-sided bound to clear -margin, given the true `difference`.

    Normal approximation, for yes or no; `samples_by_gaffke` plans margins of scores. None when the true difference is at
    or beyond the margin: more samples only prove that.

    >>> samples_for_margin(0.05, 0.4)
    396
    """
    check_share(alpha, "alpha")
    check_share(power, "power")
    _check_deviation(deviation)
    distance = margin + difference
    # A true difference at or beyond the margin is never proven inferior-free: more samples only prove the opposite.
    if distance <= 0:
        return None
    return round_up(((float(ndtri(power)) - float(ndtri(alpha))) * deviation / distance) ** 2)


def _check_deviation(deviation: float) -> None:
    if not deviation >= 0:
        raise ValueError(f"a standard deviation must be at least 0, not {deviation!r}")
