"""The exact binomial test of a stated proportion."""

from __future__ import annotations

from typing import Literal, get_args

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Alternative, check_alternative, check_choice, check_counts, check_share
from pytest_crucible.stats.proportions.one import clopper_pearson_bound, clopper_pearson_interval
from pytest_crucible.stats.results import Significance

TwoSided = Literal["likelihood", "central"]
"""The two-sided p-value: all outcomes that are not more likely than the observed one, as in R, or twice the smaller tail."""

TIES = 1 + 1e-7
"""Outcomes whose probabilities differ by less than this factor are equally likely, as in R."""


def binomial_test(
    successes: int,
    n: int,
    rate: float = 0.5,
    *,
    alternative: Alternative = "two-sided",
    two_sided: TwoSided = "likelihood",
    level: float = 0.95,
) -> Significance:
    """Return the exact binomial test of "the true proportion is `rate`"; R: binom.test(successes, n, rate).

    The Clopper-Pearson interval inverts the one-sided tests and the central two-sided one. R's likelihood p-value may contradict
    it (Fay 2010, Biostatistics 11:373); the note then says so.

    >>> round(binomial_test(37, 50, 0.6).p_value, 6)
    0.044023
    """
    check_counts(n, successes=successes)
    check_share(level, "level")
    check_alternative(alternative)
    check_choice(two_sided, get_args(TwoSided), "two_sided")
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"a proportion must lie between 0 and 1, not {rate!r}")
    p_value = binomial_p_value(successes, n, rate, alternative, two_sided) if n else None
    interval = _interval(successes, n, level, alternative)
    return Significance(
        method=_method("binomial exact", alternative, two_sided),
        statistic=float(successes),
        p_value=p_value,
        estimate=successes / n if n else None,
        interval=interval,
        n=(n,),
        status="ok" if n else "insufficient_data",
        note=describe_contradiction(p_value, interval, null=rate) if n else "0 values say nothing about a proportion",
    )


def describe_contradiction(p_value: float | None, interval: Interval | None, *, null: float) -> str:
    """Explain a p-value and an interval that disagree about the null value; empty if they agree.

    >>> describe_contradiction(0.03, Interval(low=0.0, high=1.2, level=0.95, method=""), null=1.0)
    'p is not of the test that the interval inverts: only one of them excludes 1'
    """
    if p_value is None or interval is None:
        return ""
    if (p_value < 1 - interval.level) != (interval.low <= null <= interval.high):
        return ""
    return f"p is not of the test that the interval inverts: only one of them excludes {null:g}"


def binomial_p_value(
    successes: int, n: int, rate: float, alternative: Alternative, two_sided: TwoSided = "likelihood"
) -> float:
    """Return the p-value alone, for tests that reduce to a binomial one. Checks nothing.

    >>> binomial_p_value(0, 5, 0.5, "two-sided")
    0.0625
    """
    from scipy.stats import binomtest

    # scipy refuses n = 0, and without trials every outcome is certain.
    if n == 0:
        return 1.0
    if alternative == "two-sided" and two_sided == "central":
        tails = [binomtest(successes, n, rate, alternative=side).pvalue for side in ("greater", "less")]
        return min(1.0, 2 * float(min(tails)))
    if alternative == "two-sided" and n * rate < 0.4:
        # Each outcome is less likely than the one before it: P(i + 1) / P(i) <= n rate / (1 - rate) < 0.7. So those that are
        # not more likely than the observed one are those from it on. scipy's probabilities overflow for rates below 1e-306.
        alternative = "greater"
    return float(binomtest(successes, n, rate, alternative=alternative).pvalue)


def _interval(successes: int, n: int, level: float, alternative: Alternative) -> Interval:
    if alternative == "two-sided":
        return clopper_pearson_interval(successes, n, level=level)
    low = clopper_pearson_bound(successes, n, alpha=1 - level, side="lower") if alternative == "greater" else 0.0
    high = clopper_pearson_bound(successes, n, alpha=1 - level, side="upper") if alternative == "less" else 1.0
    return Interval(low=low, high=high, level=level, method="clopper-pearson")


def _method(test: str, alternative: Alternative, two_sided: TwoSided) -> str:
    return f"{test}, two-sided by {two_sided}" if alternative == "two-sided" else f"{test}, {alternative}"
