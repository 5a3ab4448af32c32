"""Ratings on the Elo scale, differences between two items, and the possible ranks of each item."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr, stdtr

from pytest_crucible.stats.arrays import Array, check_share
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.multiplicity.adjust import holm
from pytest_crucible.stats.number_format import with_interval
from pytest_crucible.stats.results import Effect, Significance
from pytest_crucible.stats.synthesis.ratings import Ratings, make_interval
from pytest_crucible.stats.tails import normal_p_value, t_p_value

# Elo points of one unit of log-odds: 400 points are odds of ten to one.
ELO = 400 / math.log(10)


@dataclass(frozen=True, slots=True, kw_only=True)
class EloRating:
    """One item on the Elo scale."""

    item: Hashable
    rating: float
    interval: Interval

    def __str__(self) -> str:
        return f"{self.item}: {with_interval(self.rating, self.interval)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInterval:
    """The possible ranks of an item, from `best` to `worst`; 1 is the strongest."""

    item: Hashable
    rank: int
    best: int
    worst: int

    def __str__(self) -> str:
        return f"{self.item}: rank {self.rank} [{self.best}, {self.worst}]"


def elo_ratings(ratings: Ratings, *, mean: float = 1500.0) -> tuple[EloRating, ...]:
    """Return each item's rating with its interval on the Elo scale; the items' mean is `mean`.

    >>> from pytest_crucible.stats.synthesis.ratings import bradley_terry
    >>> [round(elo.rating) for elo in elo_ratings(bradley_terry([[0, 10], [1, 0]]))]
    [1700, 1300]
    """
    return tuple(
        EloRating(
            item=item,
            rating=mean + ELO * strength,
            interval=Interval(
                low=mean + ELO * interval.low,
                high=mean + ELO * interval.high,
                level=interval.level,
                method=interval.method,
            ),
        )
        for item, strength, interval in zip(ratings.items, ratings.strengths, ratings.intervals, strict=True)
    )


def compare_ratings(ratings: Ratings, first: Hashable, second: Hashable) -> Significance:
    """Return the difference of two strengths (log-odds that `first` beats `second`), tested.

    The result includes the probability of a win. Raises ValueError for an item that was not rated.

    >>> from pytest_crucible.stats.synthesis.ratings import bradley_terry
    >>> result = compare_ratings(bradley_terry([[0, 30], [10, 0]], items=["a", "b"]), "a", "b")
    >>> round(result.estimate, 4), round(result.p_value, 4), round(result.effects[0].value, 4)
    (1.0986, 0.0026, 0.75)
    """
    unknown = [item for item in (first, second) if item not in ratings.items]
    if unknown or first == second:
        raise ValueError(f"expected two of the {len(ratings.items)} rated items, not {first!r} and {second!r}")
    i, j = ratings.items.index(first), ratings.items.index(second)
    difference, variance = ratings.strengths[i] - ratings.strengths[j], float(_variances(ratings)[i, j])
    # A cluster-robust covariance may be singular in the direction of these two items.
    if variance <= 0:
        note = "the clusters do not differ in these two items: no cluster-robust error"
        return Significance(
            method=ratings.method, statistic=None, p_value=None, estimate=difference, status="degenerate", note=note
        )
    interval = make_interval(difference, variance, ratings.dof, ratings.level, ratings.method)
    z = difference / math.sqrt(variance)
    chance = Interval(
        low=float(expit(interval.low)), high=float(expit(interval.high)), level=interval.level, method=interval.method
    )
    return Significance(
        method=ratings.method,
        statistic=z,
        p_value=normal_p_value(z) if ratings.dof is None else t_p_value(z, ratings.dof),
        dof=() if ratings.dof is None else (ratings.dof,),
        estimate=difference,
        interval=interval,
        se=math.sqrt(variance),
        effects=(Effect(name="win probability", value=float(expit(difference)), interval=chance),),
    )


def rank_intervals(ratings: Ratings, *, level: float | None = None) -> tuple[RankInterval, ...]:
    """Return the possible ranks of each item, for all items at once.

    The level is by default that of the ratings. An item ranks below those that are significantly stronger and above
    those that are significantly weaker, with all pairwise tests adjusted by Holm: all true ranks lie inside in at least
    `level` of experiments (Al Mohamad, Goeman & van Zwet 2022, Biometrics 78:238, with Tukey's instead of Holm's
    adjustment). `rank` alone would mistake chance for an order.

    >>> from pytest_crucible.stats.synthesis.ratings import bradley_terry
    >>> ratings = bradley_terry([[0, 11, 30], [9, 0, 28], [2, 4, 0]], items=["a", "b", "c"])
    >>> [(place.item, place.rank, place.best, place.worst) for place in rank_intervals(ratings)]
    [('a', 1, 1, 2), ('b', 2, 1, 2), ('c', 3, 3, 3)]
    """
    alpha = 1 - (ratings.level if level is None else level)
    check_share(1 - alpha, "level")
    strengths = np.array(ratings.strengths)
    stronger = _significantly_stronger(ratings, strengths, alpha)
    better, worse = stronger.sum(axis=0), stronger.sum(axis=1)
    return tuple(
        RankInterval(
            item=item,
            rank=1 + int((strengths > strengths[number]).sum()),
            best=1 + int(better[number]),
            worst=len(strengths) - int(worse[number]),
        )
        for number, item in enumerate(ratings.items)
    )


def _significantly_stronger(ratings: Ratings, strengths: Array, alpha: float) -> Array:
    """Return items x items: 1 where the row is stronger than the column, all pairs tested together."""
    # Each pair once: Holm's correction counts k (k - 1) / 2 comparisons.
    rows, columns = np.triu_indices(len(strengths), 1)
    errors = np.sqrt(np.maximum(_variances(ratings)[rows, columns], 0.0))
    z = np.divide(strengths[rows] - strengths[columns], errors, out=np.zeros_like(errors), where=errors > 0)
    tails = ndtr(-np.abs(z)) if ratings.dof is None else stdtr(ratings.dof, -np.abs(z))
    significant = np.array([p is not None and p <= alpha for p in holm((2 * tails).tolist())])
    stronger = np.zeros((len(strengths), len(strengths)))
    stronger[rows, columns] = significant & (z > 0)
    stronger[columns, rows] = significant & (z < 0)
    return stronger


def _variances(ratings: Ratings) -> Array:
    """Return the variance of the difference of each pair of strengths."""
    own = np.diag(ratings.covariance)
    return np.asarray(np.add.outer(own, own) - 2 * ratings.covariance, dtype=np.float64)
