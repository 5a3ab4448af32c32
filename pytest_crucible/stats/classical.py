"""Textbook tests and the bootstrap, as thin calls of scipy with this package's results.

No verdict uses them: `compare` chooses its method from a table, and no test of shape or variance takes part in the choice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    check_alternative,
    check_choice,
    check_share,
    finite,
    finite_matrix,
    paired_arrays,
)
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.moments import tail_share
from pytest_crucible.stats.number_format import quantity, with_interval, with_note
from pytest_crucible.stats.ranks.superiority import cles, cliffs_delta, rounded_differences
from pytest_crucible.stats.resampling.draws import Seed, generator
from pytest_crucible.stats.results import Effect, Significance

Groups = Sequence[npt.ArrayLike]

MOST_SHAPIRO = 5000
"""Royston's approximation of the p-value was fitted up to this size."""


def mann_whitney(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, alternative: Alternative = "two-sided"
) -> Significance:
    """Return the Mann-Whitney U test of two independent arms, with CLES and Cliff's delta; scipy.stats.mannwhitneyu.

    >>> result = mann_whitney([0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15])
    >>> result.statistic, round(result.p_value, 6)
    (16.0, 0.028571)
    """
    check_alternative(alternative)
    arms = _fewest(finite(candidate, name="candidate values"), 1), _fewest(finite(baseline, name="baseline values"), 1)
    effects, n = (cles(*arms), cliffs_delta(*arms)), (arms[0].size, arms[1].size)
    result = _call("mann-whitney", n, scipy.stats.mannwhitneyu, *arms, alternative=alternative)
    return replace(result, effects=effects)


def wilcoxon_signed_rank(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike | None = None, *, alternative: Alternative = "two-sided"
) -> Significance:
    """Return Wilcoxon's signed-rank test of paired differences, zeros ranked (Pratt); scipy.stats.wilcoxon.

    Without a baseline the values are differences already. Exact up to 200 pairs without ties and zeros. The statistic is W+.

    >>> wilcoxon_signed_rank([0.72, 0.68, 0.75, 0.71, 0.69], [0.6, 0.55, 0.61, 0.56, 0.53]).p_value
    0.0625
    """
    check_alternative(alternative)
    differences = _fewest(rounded_differences(candidate, baseline), 1)
    sizes = np.abs(differences)
    exact = differences.size <= 200 and sizes.min() > 0 and np.unique(sizes).size == sizes.size
    options: dict[str, Any] = {
        "zero_method": "pratt",
        "correction": not exact,
        "method": "exact" if exact else "approx",
    }
    name = "wilcoxon signed-rank, exact" if exact else "wilcoxon signed-rank, asymptotic, continuity corrected"
    result = _call(name, (differences.size,), scipy.stats.wilcoxon, differences, alternative=alternative, **options)
    return replace(result, statistic=float(scipy.stats.rankdata(sizes)[differences > 0].sum()))


def anova_oneway(groups: Groups) -> Significance:
    """Return the F test that independent groups of equal variance have one mean; scipy.stats.f_oneway.

    Effects: eta squared, and omega and epsilon squared, which are corrected for chance and may be negative.

    >>> result = anova_oneway([[1, 2, 3], [2, 3, 4], [5, 6, 7]])
    >>> round(result.statistic, 6), result.dof, round(result.p_value, 6)
    (13.0, (2.0, 6.0), 0.006592)
    """
    arrays, (between, within) = _groups(groups)
    result = _call("one-way anova", tuple(map(len, arrays)), scipy.stats.f_oneway, *arrays, dof=(between, within))
    if result.statistic is None:
        return result
    signal, excess = between * result.statistic, between * (result.statistic - 1)
    shares = {
        "eta squared": signal / (signal + within),
        "omega squared": excess / (signal + within + 1),
        "epsilon squared": excess / (signal + within),
    }
    return _with_effects(result, shares)


def kruskal_wallis(groups: Groups) -> Significance:
    """Return the Kruskal-Wallis H test that independent groups have one distribution; scipy.stats.kruskal.

    Effects: epsilon squared H / (N - 1), and eta squared H, which is corrected for chance.

    >>> result = kruskal_wallis([[1, 2, 3], [1, 2, 3], [4, 5, 6]])
    >>> round(result.statistic, 6), round(result.p_value, 6)
    (5.538462, 0.06271)
    """
    arrays, (between, within) = _groups(groups)
    result = _call("kruskal-wallis", tuple(map(len, arrays)), scipy.stats.kruskal, *arrays, dof=(between,))
    if result.statistic is None:  # all values are the same: nothing speaks against one distribution
        return _with_effects(replace(result, p_value=1.0), {"epsilon squared": 0.0})
    shares = {
        "epsilon squared": result.statistic / (between + within),
        "eta squared h": (result.statistic - between) / within,
    }
    return _with_effects(result, shares)


def levene(groups: Groups, *, centre: Literal["median", "mean"] = "median") -> Significance:
    """Return the test of equal variances of Brown and Forsythe, or of Levene by the mean; scipy.stats.levene.

    >>> result = levene([[1, 2, 3, 4], [2, 6, 10, 14]])
    >>> round(result.statistic, 4), result.dof, round(result.p_value, 4)
    (6.3529, (1.0, 6.0), 0.0453)
    """
    check_choice(centre, ("median", "mean"), "centre")
    arrays, dof = _groups(groups)
    return _call(
        f"levene, distances from the {centre}",
        tuple(map(len, arrays)),
        scipy.stats.levene,
        *arrays,
        center=centre,
        dof=dof,
    )


def variance_ratio(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, alternative: Alternative = "two-sided", level: float = 0.95
) -> Significance:
    """Return the F test of var(candidate) / var(baseline) = 1 for normal values; R: var.test(candidate, baseline).

    >>> result = variance_ratio([2, 6, 10, 14], [1, 2, 3, 4])
    >>> round(result.statistic, 6), round(result.p_value, 4)
    (16.0, 0.0476)
    """
    check_share(level, "level")
    check_alternative(alternative)
    first, second = (
        _fewest(finite(values, name=f"{name} values"), 2)
        for name, values in (("candidate", candidate), ("baseline", baseline))
    )
    dof, n = (first.size - 1.0, second.size - 1.0), (first.size, second.size)
    spread = float(second.std(ddof=1))
    ratio = (float(first.std(ddof=1)) / spread) ** 2 if spread else math.nan
    # Both tails are computed directly: 1 minus the larger one would lose digits.
    above, below = float(scipy.special.fdtrc(*dof, ratio)), float(scipy.special.fdtr(*dof, ratio))
    p_values = {"two-sided": min(1.0, 2 * min(above, below)), "greater": above, "less": below}
    result = _result("f test of two variances", n, ratio, p_values[alternative], dof)
    if result.statistic is None:
        return result
    tail = tail_share(1 - level, alternative)
    # Swapping the arms inverts the quantile. Lower-tail quantiles alone keep the digits of both tails.
    low = 0.0 if alternative == "less" else ratio * float(scipy.special.fdtri(dof[1], dof[0], tail))
    high = math.inf if alternative == "greater" else ratio / float(scipy.special.fdtri(*dof, tail))
    return replace(result, estimate=ratio, interval=Interval(low=low, high=high, level=level, method="f"))


def shapiro_wilk(values: npt.ArrayLike) -> Significance:
    """Return Shapiro and Wilk's W with Royston's p-value, for "the values are normal"; scipy.stats.shapiro.

    >>> result = shapiro_wilk([0.1, 0.5, 0.6])
    >>> round(result.statistic, 6), round(result.p_value, 6)
    (0.892857, 0.363113)
    """
    array = _fewest(finite(values), 3)
    if array.size > MOST_SHAPIRO:
        raise ValueError(f"{array.size} values, but the p-value is known up to {MOST_SHAPIRO}: give a random part")
    return _call("shapiro-wilk", (array.size,), scipy.stats.shapiro, array)


def chi2_independence(table: npt.ArrayLike, *, correction: bool = False) -> Significance:
    """Return Pearson's chi-squared test that rows and columns are independent, with Cramer's V; scipy.stats.chi2_contingency.

    `correction` is Yates's, of 2 x 2 tables only; Cramer's V and Cohen's w are without it.

    >>> result = chi2_independence([[18, 7], [9, 16]])
    >>> round(result.statistic, 4), round(result.p_value, 6), round(result.effects[0].value, 4)
    (6.5217, 0.010656, 0.3612)
    """
    counts = finite_matrix(table, rows="rows")
    n, smaller = int(counts.sum()), min(counts.shape) - 1
    answer, plain = (scipy.stats.chi2_contingency(counts, correction=yates) for yates in (correction, False))
    method = "chi-squared, yates" if correction and counts.shape == (2, 2) else "chi-squared"
    result = _result(method, (n,), float(answer.statistic), float(answer.pvalue), (float(plain.dof),))
    share = float(plain.statistic) / n
    return _with_effects(result, {"cramers v": math.sqrt(share / smaller), "cohens w": math.sqrt(share)})


def chi2_goodness_of_fit(observed: npt.ArrayLike, shares: npt.ArrayLike | None = None) -> Significance:
    """Return Pearson's chi-squared test that counts follow shares, by default equal ones; scipy.stats.chisquare.

    >>> result = chi2_goodness_of_fit([18, 22, 30, 10])
    >>> round(result.statistic, 6), result.dof, round(result.p_value, 6)
    (10.4, (3.0,), 0.015455)
    """
    counts = _fewest(finite(observed, name="counts"), 2)
    n = float(counts.sum())
    expected = None if shares is None else n * finite(shares, name="shares")
    result = _call("goodness of fit", (int(n),), scipy.stats.chisquare, counts, expected, dof=(counts.size - 1.0,))
    return result if result.statistic is None else _with_effects(result, {"cohens w": math.sqrt(result.statistic / n)})


def pearson(
    x: npt.ArrayLike, y: npt.ArrayLike, *, alternative: Alternative = "two-sided", level: float = 0.95
) -> Significance:
    """Return Pearson's correlation with its t test and Fisher's interval; scipy.stats.pearsonr.

    >>> result = pearson([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(result.estimate, 4), round(result.p_value, 4), round(result.interval.low, 4)
    (0.8, 0.1041, -0.2796)
    """
    check_share(level, "level")
    result = _correlation("pearson", scipy.stats.pearsonr, x, y, alternative)
    r, dof = result.estimate, result.n[0] - 2
    if r is None or abs(r) == 1:
        return result
    values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    low, high = scipy.stats.pearsonr(*values, alternative=alternative).confidence_interval(level)
    interval = Interval(low=float(low), high=float(high), level=level, method="fisher")
    statistic = r * math.sqrt(dof / ((1 - r) * (1 + r)))
    return replace(result, statistic=statistic, dof=(float(dof),), interval=interval)


def spearman(x: npt.ArrayLike, y: npt.ArrayLike, *, alternative: Alternative = "two-sided") -> Significance:
    """Return Spearman's rank correlation, its p-value by t; scipy.stats.spearmanr.

    >>> result = spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(result.estimate, 4), round(result.p_value, 4)
    (0.8, 0.1041)
    """
    return _correlation("spearman", scipy.stats.spearmanr, x, y, alternative)


def kendall(x: npt.ArrayLike, y: npt.ArrayLike, *, alternative: Alternative = "two-sided") -> Significance:
    """Return Kendall's tau-b, exact for few values without ties; scipy.stats.kendalltau.

    >>> result = kendall([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(result.estimate, 4), round(result.p_value, 4)
    (0.6, 0.2333)
    """
    return _correlation("kendall", scipy.stats.kendalltau, x, y, alternative)


def _correlation(
    name: str, test: Callable[..., Any], x: npt.ArrayLike, y: npt.ArrayLike, alternative: Alternative
) -> Significance:
    check_alternative(alternative)
    first, second = paired_arrays(x, y, names=("x", "y"))
    result = _call(name, (_fewest(first, 3).size,), test, first, second, alternative=alternative)
    result = replace(result, estimate=result.statistic, statistic=None)
    if result.estimate is None or abs(result.estimate) < 1:
        return result
    # Its p-value by t would be 0, which no number of pairs shows.
    return replace(result, p_value=None, status="degenerate", note="a perfect correlation has no standard error")


def _groups(groups: Groups) -> tuple[list[Array], tuple[float, float]]:
    """Return the groups, and the degrees of freedom between and within them."""
    arrays = [finite(group, name=f"values of group {number}") for number, group in enumerate(groups, 1)]
    empty = sum(not group.size for group in arrays)
    if len(arrays) < 2 or empty:
        raise ValueError(f"expected at least 2 groups with values, not {len(arrays)} of which {empty} are empty")
    n = sum(group.size for group in arrays)
    if n <= len(arrays):
        raise NotEnoughData(f"{n} values in {len(arrays)} groups: a variance inside groups needs a group of at least 2")
    return arrays, (len(arrays) - 1.0, float(n - len(arrays)))


def _fewest(values: Array, fewest: int) -> Array:
    if values.size < fewest:
        raise NotEnoughData(f"{quantity(values.size, 'value')}: this test needs at least {fewest}")
    return values


def _call(
    name: str, n: tuple[int, ...], test: Callable[..., Any], /, *data: Any, dof: tuple[float, ...] = (), **options: Any
) -> Significance:
    """Return the result of a test of scipy. Statistic and p-value are None where the data do not define them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Constant data are no fault here: they make the result degenerate.
        warnings.simplefilter("ignore")
        answer = test(*data, **options)
    return _result(name, n, float(answer.statistic), float(answer.pvalue), dof)


def _result(method: str, n: tuple[int, ...], statistic: float, p_value: float, dof: tuple[float, ...]) -> Significance:
    if math.isfinite(statistic) and math.isfinite(p_value):
        return Significance(method=method, statistic=statistic, p_value=p_value, dof=dof, n=n)
    note = "values that do not vary leave the test undefined"
    return Significance(method=method, statistic=None, p_value=None, dof=dof, n=n, status="degenerate", note=note)


def _with_effects(result: Significance, effects: dict[str, float]) -> Significance:
    return replace(result, effects=tuple(Effect(name=name, value=value) for name, value in effects.items()))


Resampling = Literal["bca", "percentile", "basic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapResult:
    """A statistic with its bootstrap interval and standard error."""

    estimate: float
    interval: Interval | None
    """None where it would be a single point, or BCa is not defined."""
    se: float
    n: int
    seed: int | None
    method: str
    note: str = ""

    def __str__(self) -> str:
        return with_note(f"{with_interval(self.estimate, self.interval)}, n={self.n:,} ({self.method})", self.note)


def bootstrap(
    values: npt.ArrayLike,
    statistic: Callable[..., Any],
    *,
    level: float = 0.95,
    method: Resampling = "bca",
    resamples: int = 9999,
    rng: Seed = 0,
) -> BootstrapResult:
    """Return a statistic of the values with its bootstrap interval: scipy.stats.bootstrap.

    `statistic` takes `axis=`, as np.mean does. Raises NotEnoughData below two values.

    >>> import numpy as np
    >>> round(bootstrap([0.8, 1.1, 0.9, 1.4, 2.2, 0.7], np.median).estimate, 2)
    1.0
    """
    import scipy.stats

    check_share(level, "level")
    check_choice(method, ("bca", "percentile", "basic"), "method")
    array = finite(values)
    if array.size < 2:
        raise NotEnoughData(f"{quantity(array.size, 'value')}: a bootstrap needs at least 2")
    generate, seed = generator(rng)
    # Where BCa is not defined, scipy warns and returns NaN: the interval is None.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resampled = scipy.stats.bootstrap(
            (array,), statistic, confidence_level=level, n_resamples=resamples, method=method, random_state=generate
        )
    low, high = (float(end) for end in resampled.confidence_interval)
    named, note = f"bootstrap {method}", ""
    if math.isnan(low):
        note = "BCa is not defined for so many ties: use method='percentile'"
    elif low == high:
        note = "too many ties: the interval would be a single point"
    return BootstrapResult(
        estimate=float(statistic(array, axis=0)),
        interval=None if note else Interval(low=low, high=high, level=level, method=named),
        se=float(resampled.standard_error),
        n=array.size,
        seed=seed,
        method=f"{named}, {resamples:,} resamples",
        note=note,
    )
