"""Methods for pairs: candidate - baseline with interval and p-value, and one-sided bounds for margins.

One-sided alternatives give intervals of which one end is infinite.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.stats.arrays import Alternative, Side
from pytest_crucible.stats.inputs import Arms, Observed
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.means.student import paired_t
from pytest_crucible.stats.methods import one_arm
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.proportions.paired import mcnemar_exact
from pytest_crucible.stats.proportions.paired_exact import paired_exact_bound, paired_exact_test
from pytest_crucible.stats.resampling.alikeness import flip_signs
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.results.significance import Alikeness


def exact_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = differences(arms)
    gained, lost = _discordant(observed)
    result = paired_exact_test(gained, lost, observed.values.size, level=level, alternative=alternative)
    # McNemar's conditional p-value, which readers may expect. It is two-sided.
    p_exact = mcnemar_exact(gained, lost) if alternative == "two-sided" else None
    # One procedure has the p-value and the interval, so the p-value is also that of the proof.
    return replace(result, proof_p=result.p_value, p_exact=p_exact, status="ok", note="")


def flip_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    """Return the test that the two replies to a sample could be exchanged. It has no interval: that is of the mean's bounds."""
    observed = differences(arms)
    alike = flip_signs(
        observed.values,
        clusters=observed.clusters,
        keys=arms.keys,
        alternative=alternative,
        monte_carlo=arms.monte_carlo,
    )
    return of_alikeness(alike, observed.mean)


def of_alikeness(alike: Alikeness, estimate: float | None) -> Significance:
    """Return a permutation test as a result of the table."""
    p_value = alike.p_value
    return Significance(method=alike.method, statistic=None, p_value=p_value, alikeness=alike, estimate=estimate)


def t_interval_of_pairs(arms: Arms, level: float, alternative: Alternative) -> Interval | None:
    """Return Student's t interval, by clusters CR2's: approximate, for scores without ends, whose mean has no valid bound."""
    observed = differences(arms)
    if observed.clusters is None:
        return paired_t(observed.values, alternative=alternative, level=level).interval
    mean = clustered_mean(observed.values, observed.labels)
    return clustered_interval(mean, level=level, bounds=observed.bounds, alternative=alternative)


# -- one-sided bounds to decide a margin by -----------------------------------------------------------------------


def exact_side(arms: Arms, alpha: float, side: Side) -> float:
    observed = differences(arms)
    return paired_exact_bound(*_discordant(observed), observed.values.size, alpha=alpha, side=side)


def gaffke_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return one_arm.gaffke_side(differences(arms), alpha, side)


def gaffke_p(arms: Arms, null: float, side: Side) -> float:
    observed = differences(arms)
    end = observed.bounds[0 if side == "lower" else 1]
    return gaffke_p_value(observed.values, null=null, end=end, side=side, clusters=observed.clusters)


def no_side(arms: Arms, alpha: float, side: Side) -> None:
    """Return None: no bound holds for a difference of values without ends (Bahadur & Savage 1956, Ann. Math. Stat. 27:1115)."""


def betting_side(arms: Arms, alpha: float, side: Side) -> float:
    return one_arm.betting_side(differences(arms), alpha, side, arms.keys)


def differences(arms: Arms) -> Observed:
    assert arms.differences is not None, "the table gives paired methods to pairs only"
    return arms.differences


def _discordant(observed: Observed) -> tuple[int, int]:
    # One pair has an interval, but it is nearly [-1, 1] and would only look like a result.
    if observed.values.size < 2:
        raise NotEnoughData(f"{quantity(observed.values.size, 'pair')}: a comparison needs at least 2")
    return int((observed.values > 0).sum()), int((observed.values < 0).sum())
