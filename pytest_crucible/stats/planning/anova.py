"""Power and sample size of one-way ANOVA by the noncentral F distribution.

Cohen's f is the standard deviation of the arms' means in standard deviations of the values.
"""

from __future__ import annotations

from scipy.special import fdtri, ncfdtr

from pytest_crucible.stats.arrays import check_share
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.roots import NEVER, SampleSize, check_effect, check_power, sample_size


def power_anova(n: float, arms: int, effect: float, *, alpha: float = 0.05) -> float:
    """Return the power of one-way ANOVA at Cohen's f with n values in each arm.

    R: pwr::pwr.anova.test(k, n, f). The power is alpha at no effect. Raises NotEnoughData below two values in each arm.

    >>> round(power_anova(53, 3, 0.25), 7)
    0.8048873
    """
    check_share(alpha, "alpha")
    _check_anova(arms, effect)
    if not n >= 2:
        raise NotEnoughData(f"{quantity(n, 'value')} in each arm: ANOVA needs at least 2")
    return _power(n, arms, effect, alpha)


def samples_for_anova(arms: int, effect: float, *, alpha: float = 0.05, power: float = 0.8) -> SampleSize:
    """Return the number of values in each arm that one-way ANOVA needs at Cohen's f.

    R: pwr::pwr.anova.test(k, f=, power=)$n.

    >>> samples_for_anova(3, 0.25).ceiling
    53
    """
    check_power(power, alpha)
    _check_anova(arms, effect)
    # With fewer than two values in each arm, the residual variance is undefined.
    return sample_size(lambda n: _power(n, arms, effect, alpha), power, fewest=2.0) if effect else NEVER


def _power(n: float, arms: int, effect: float, alpha: float) -> float:
    dof = arms - 1.0, arms * (n - 1.0)
    # Noncentrality k n f^2 (Cohen 1988, chapter 8).
    return 1 - float(ncfdtr(*dof, arms * n * effect * effect, fdtri(*dof, 1 - alpha)))


def _check_anova(arms: int, effect: float) -> None:
    check_effect(effect, "Cohen's f")
    if arms < 2 or effect < 0:
        raise ValueError(f"expected at least 2 arms and an effect of at least 0, not {arms} and {effect!r}")
