"""Power and sample size of one-way ANOVA and chi-square tests, exact by noncentral F and chi-square.

Cohen's f is the standard deviation of the arms' means in standard deviations of the values; Cohen's w is the root of
the sum of (p1 - p0)^2 / p0 over the cells.
"""

from __future__ import annotations

from scipy.special import betainccinv, betaincinv, chdtri

from pytest_crucible.stats.arrays import check_share
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.noncentral_tails import noncentral_chi2_above, noncentral_f_above
from pytest_crucible.stats.planning.roots import (
    NEVER,
    SampleSize,
    check_effect,
    check_power,
    rising_root,
    sample_size,
)


def power_anova(n: float, arms: int, effect: float, *, alpha: float = 0.05) -> float:
    """Return the power of one-way ANOVA at Cohen's f with n values in each arm.

    R: pwr::pwr.anova.test(k, n, f). The power is alpha at no effect. Raises NotEnoughData below two values in each arm.

    >>> round(power_anova(53, 3, 0.25), 7)
    0.8048873
    """
    check_share(alpha, "alpha")
    _check_anova(arms, effect)
    _check_values(n)
    return _anova(n, arms, effect, alpha)


def samples_for_anova(arms: int, effect: float, *, alpha: float = 0.05, power: float = 0.8) -> SampleSize:
    """Return the number of values in each arm that one-way ANOVA needs at Cohen's f.

    R: pwr::pwr.anova.test(k, f=, power=)$n.

    >>> samples_for_anova(3, 0.25).ceiling
    53
    """
    check_power(power, alpha)
    _check_anova(arms, effect)
    # With fewer than two values in each arm, the residual variance is undefined.
    return sample_size(lambda n: _anova(n, arms, effect, alpha), power, fewest=2.0) if effect else NEVER


def detectable_anova(n: float, arms: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest Cohen's f that one-way ANOVA detects with n values in each arm.

    >>> round(detectable_anova(53, 3), 3)
    0.249
    """
    check_power(power, alpha)
    _check_anova(arms, 0.0)
    _check_values(n)
    return rising_root(lambda effect: _anova(n, arms, effect, alpha) - power, 0.0)


def power_chi2(n: float, effect: float, dof: float, *, alpha: float = 0.05) -> float:
    """Return the power of a chi-square test at Cohen's w with n values in total.

    R: pwr::pwr.chisq.test(w, N, df).

    >>> round(power_chi2(100, 0.3, 2), 7)
    0.7706831
    """
    check_share(alpha, "alpha")
    _check_chi2(effect, dof)
    if not n >= 1:
        raise NotEnoughData(f"{quantity(n, 'value')}: a chi-square test needs at least 1")
    return _chi2(n, effect, dof, alpha)


def samples_for_chi2(effect: float, dof: float, *, alpha: float = 0.05, power: float = 0.8) -> SampleSize:
    """Return the total number of values that a chi-square test needs at Cohen's w.

    R: pwr::pwr.chisq.test(w, df=, power=)$N.

    >>> samples_for_chi2(0.3, 2).ceiling
    108
    """
    check_power(power, alpha)
    _check_chi2(effect, dof)
    return sample_size(lambda n: _chi2(n, effect, dof, alpha), power, fewest=1.0) if effect else NEVER


def detectable_chi2(n: float, dof: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest Cohen's w that a chi-square test on n values in total detects.

    >>> round(detectable_chi2(108, 2), 3)
    0.299
    """
    check_power(power, alpha)
    _check_chi2(0.0, dof)
    if not n >= 1:
        raise NotEnoughData(f"{quantity(n, 'value')}: a chi-square test needs at least 1")
    return rising_root(lambda effect: _chi2(n, effect, dof, alpha) - power, 0.0)


def _anova(n: float, arms: int, effect: float, alpha: float) -> float:
    numerator, denominator = arms - 1.0, arms * (n - 1.0)
    # The critical F is a ratio of a beta quantile and its complement. Each comes from its own inverse, because
    # 1 - share would lose digits.
    share = float(betainccinv(numerator / 2, denominator / 2, alpha))
    rest = float(betaincinv(denominator / 2, numerator / 2, alpha))
    critical = share / rest * denominator / numerator
    # Noncentrality k n f^2 (Cohen 1988, chapter 8).
    return noncentral_f_above(critical, numerator, denominator, arms * n * effect * effect)


def _chi2(n: float, effect: float, dof: float, alpha: float) -> float:
    # Noncentrality n w^2 (Cohen 1988, chapter 7).
    return noncentral_chi2_above(float(chdtri(dof, alpha)), dof, n * effect * effect)


def _check_anova(arms: int, effect: float) -> None:
    check_effect(effect, "Cohen's f")
    if arms < 2 or effect < 0:
        raise ValueError(f"expected at least 2 arms and an effect of at least 0, not {arms} and {effect!r}")


def _check_values(n: float) -> None:
    if not n >= 2:
        raise NotEnoughData(f"{quantity(n, 'value')} in each arm: ANOVA needs at least 2")


def _check_chi2(effect: float, dof: float) -> None:
    check_effect(effect, "Cohen's w")
    if not dof > 0 or effect < 0:
        raise ValueError(
            f"expected positive degrees of freedom and an effect of at least 0, not {dof!r} and {effect!r}"
        )
