"""Heterogeneity of studies: tau^2, the variance between their true effects, by its three usual estimators.

With weights 1 / (variance + tau^2), Cochran's Q falls as tau^2 grows; every estimator solves an equation in it.
"""

from __future__ import annotations

from typing import Literal

from scipy.special import chdtri

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.interval import Interval

Estimator = Literal["reml", "paule-mandel", "dersimonian-laird"]
# A limit against endless loops.
_STEPS = 1000
# Relative change of tau^2 at which the search ends.
_CLOSE = 1e-12


def weighted_mean(effects: Array, weights: Array) -> float:
    """Return the weighted mean of the effects."""
    return float(weights @ effects / weights.sum())


def cochran_q(effects: Array, variances: Array, tau2: float = 0.0) -> float:
    """Return Cochran's Q: the weighted sum of squares around the weighted mean.

    It is chi-square with studies - 1 degrees of freedom at the true tau^2.
    """
    weights = 1 / (variances + tau2)
    return float(weights @ (effects - weighted_mean(effects, weights)) ** 2)


def between_variance(effects: Array, variances: Array, estimator: Estimator) -> float:
    """Return tau^2, at least 0.

    R: metafor::rma(yi, vi, method="REML", "PM" or "DL")$tau2.
    """
    if estimator == "dersimonian-laird":
        return _dersimonian_laird(effects, variances)
    if estimator == "paule-mandel":
        return _solve_cochran_q(effects.size - 1, effects, variances)
    return _restricted_likelihood(effects, variances)


def q_profile_interval(effects: Array, variances: Array, *, level: float) -> Interval:
    """Return the interval of tau^2 for which Q is not extreme.

    Viechtbauer 2007 (SiM 26:37); R: confint(metafor::rma(yi, vi)).
    """
    dof, tail = effects.size - 1, (1 - level) / 2
    low = _solve_cochran_q(float(chdtri(dof, tail)), effects, variances)
    high = _solve_cochran_q(float(chdtri(dof, 1 - tail)), effects, variances)
    return Interval(low=low, high=high, level=level, method="q-profile")


def typical_variance(variances: Array) -> float:
    """Return the sampling variance of a typical study.

    Higgins & Thompson 2002, eq. (9).
    """
    weights = 1 / variances
    total = float(weights.sum())
    return (variances.size - 1) * total / (total**2 - float(weights @ weights))


def _dersimonian_laird(effects: Array, variances: Array) -> float:
    """Return the tau^2 at which Q with fixed weights equals its expectation.

    DerSimonian & Laird 1986.
    """
    weights = 1 / variances
    total = float(weights.sum())
    excess = cochran_q(effects, variances) - (effects.size - 1)
    return max(0.0, excess / (total - float(weights @ weights) / total))


def _solve_cochran_q(target: float, effects: Array, variances: Array) -> float:
    """Return the tau^2 with Q(tau^2) = target, or 0 where Q never is that large.

    Newton's steps from 0: Q falls and is convex, so the steps come from one side and never overshoot (DerSimonian &
    Kacker 2007).
    """
    tau2 = 0.0
    for _ in range(_STEPS):
        weights = 1 / (variances + tau2)
        squares = (effects - weighted_mean(effects, weights)) ** 2
        # The slope of Q is -sum(w^2 (y - mean)^2); equal effects have none.
        step = (float(weights @ squares) - target) / max(float((weights**2) @ squares), 1e-300)
        if step <= _CLOSE * (tau2 + float(variances.min())):
            return tau2
        tau2 += step
    raise ValueError(f"tau^2 of {effects.size} studies did not converge in {_STEPS} steps")


def _restricted_likelihood(effects: Array, variances: Array) -> float:
    """Return REML's tau^2: the peak of the restricted likelihood nearest to DerSimonian & Laird's value.

    Viechtbauer 2005. Fisher's scoring steps alone may circle the peak for ever: every second step halves the bracket.
    """
    low, high = _bracket(effects, variances)
    tau2 = high
    for step in range(_STEPS):
        if high - low <= _CLOSE * (high + float(variances.min())):
            return low if low == 0 else (low + high) / 2
        score, information = _score(effects, variances, tau2)
        low, high = (tau2, high) if score > 0 else (low, tau2)
        scored = tau2 + score / information
        if low < scored < high and abs(scored - tau2) <= _CLOSE * scored:
            return scored
        tau2 = scored if low < scored < high and step % 2 == 0 else (low + high) / 2
    raise ValueError(f"tau^2 of {effects.size} studies did not converge in {_STEPS} steps: use model='paule-mandel'")


def _bracket(effects: Array, variances: Array) -> tuple[float, float]:
    """Return where the likelihood rises and, above it, falls; (0, 0) when it only falls."""
    # The likelihood may have several peaks: the search starts near the moment estimate.
    start = max(_dersimonian_laird(effects, variances), float(variances.min()) / 1024)
    high = start
    while _score(effects, variances, high)[0] > 0:
        high *= 2
    if high > start:
        return high / 2, high
    for low in [start / 2**power for power in range(1, 20)] + [0.0]:
        if _score(effects, variances, low)[0] > 0:
            return low, high
        high = low
    return 0.0, 0.0


def _score(effects: Array, variances: Array, tau2: float) -> tuple[float, float]:
    """Return twice the slope of the restricted likelihood, and twice its information.

    With P = W - W 11' W / sum(w) they are y'PPy - trace P and trace PP.
    """
    weights = 1 / (variances + tau2)
    total, second, third = (float((weights**power).sum()) for power in (1, 2, 3))
    squares = float((weights**2) @ (effects - weighted_mean(effects, weights)) ** 2)
    return squares - total + second / total, second - 2 * third / total + (second / total) ** 2
