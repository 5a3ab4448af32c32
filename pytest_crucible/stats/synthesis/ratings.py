"""Bradley-Terry ratings from pairwise judgements, by maximum likelihood.

P(i beats j) = 1 / (1 + exp(strength j - strength i)). All judgements are used at once. Elo's running updates are not
offered: their result depends on the order in which the same games are read, and they carry no standard error.
`elo_ratings` puts these strengths on the Elo scale.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from pytest_crucible.stats.arrays import ROUNDING, Array, Labels, check_share, cluster_codes
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import quantity, with_interval, with_note
from pytest_crucible.stats.synthesis.pairwise import Judgement, Pairs, check_connected, check_wins, read_judgements
from pytest_crucible.stats.tails import normal_interval, t_interval

# Fewer clusters leave cluster-robust errors far too small.
FEWEST_CLUSTERS = 5
# A limit against endless loops.
_STEPS = 200
# Largest Newton step, in log-odds, at which the fit ends.
_CLOSE = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratings:
    """Strengths on the log-odds scale, which sum to 0."""

    items: tuple[Hashable, ...]
    strengths: tuple[float, ...]
    intervals: tuple[Interval, ...]
    """Intervals of each strength against the mean of all. For differences see `compare_ratings`."""
    covariance: Array
    """Covariance of the strengths, items x items; its rows sum to 0."""
    comparisons: float
    dof: int | None
    """Degrees of freedom of intervals: clusters - 1, None for the normal distribution."""
    level: float
    method: str
    note: str = ""

    def __str__(self) -> str:
        shown = (
            f"{item}: {with_interval(strength, interval, sign=True)}"
            for item, strength, interval in zip(self.items, self.strengths, self.intervals, strict=True)
        )
        return with_note(f"{'; '.join(shown)}, comparisons={self.comparisons:,.6g} ({self.method})", self.note)


def bradley_terry(
    wins: npt.ArrayLike, *, items: Sequence[Hashable] | None = None, ridge: float = 0.0, level: float = 0.95
) -> Ratings:
    """Return Bradley-Terry strengths from a table of wins, row over column.

    A tie is half a win of each. Bradley & Terry 1952; R: BradleyTerry2::BTm, with the strengths centred. Covariance
    from the Fisher information: judgements count as independent (`rate_judgements` takes clusters). Raises ValueError,
    naming the items, when no chain of wins connects all of them (Ford 1957), unless `ridge` pulls the strengths to 0,
    as a normal prior with variance 1 / ridge does. Raises NotEnoughData below 2 items or without a win.

    >>> ratings = bradley_terry([[0, 3], [1, 0]], items=["a", "b"])
    >>> [round(strength, 4) for strength in ratings.strengths]
    [0.5493, -0.5493]
    """
    check_share(level, "level")
    table, names = check_wins(wins, items)
    strengths, covariance = _fit(table, names, ridge)
    return _ratings(names, strengths, covariance, float(table.sum()), None, level, "bradley-terry", ridge)


def rate_judgements(
    judgements: Iterable[Judgement], *, clusters: Labels | None = None, ridge: float = 0.0, level: float = 0.95
) -> Ratings:
    """Return Bradley-Terry strengths from judgements (winner, loser) or (first, second, score of the first).

    With `clusters`, one label per judgement such as its sample, errors are cluster-robust: information^-1 *
    sum(score score') * information^-1 * G / (G - 1) (Liang & Zeger 1986; R: sandwich::vcovCL, type "HC0") and t with
    G - 1 degrees of freedom. Raises what `bradley_terry` raises, and NotEnoughData below 5 clusters.

    >>> ratings = rate_judgements([("a", "b"), ("a", "b"), ("b", "a"), ("a", "b", 0.5), ("b", "c"), ("c", "b")])
    >>> ratings.items, [round(strength, 3) for strength in ratings.strengths]
    (('a', 'b', 'c'), [0.341, -0.17, -0.17])
    """
    check_share(level, "level")
    pairs = read_judgements(judgements)
    table, names = check_wins(pairs.wins(), pairs.items)
    strengths, covariance = _fit(table, names, ridge)
    if clusters is None:
        return _ratings(names, strengths, covariance, float(table.sum()), None, level, "bradley-terry", ridge)
    codes, count = cluster_codes(clusters, pairs.scores.size)
    if count < FEWEST_CLUSTERS:
        raise NotEnoughData(f"{quantity(count, 'cluster')}: cluster-robust ratings need at least {FEWEST_CLUSTERS}")
    # The sandwich: bread on both sides of the observed spread of the scores.
    robust = covariance @ _spread_of_scores(pairs, strengths, codes, count) @ covariance
    # Clusters with equal judgements leave an error of 0 for some item, which would be certainty.
    if np.diag(robust).min() <= ROUNDING * np.diag(covariance).max():
        raise NotEnoughData(
            f"{count} clusters with equal judgements: a cluster-robust error needs clusters that differ"
        )
    name = "bradley-terry, cluster-robust"
    return _ratings(names, strengths, robust, float(table.sum()), count - 1, level, name, ridge)


def _fit(wins: Array, items: tuple[Hashable, ...], ridge: float) -> tuple[Array, Array]:
    """Return strengths and the inverse of the (penalised) information, by damped Newton steps.

    A step is halved while the likelihood falls.
    """
    if ridge < 0:
        raise ValueError(f"ridge must be a penalty of 0 or more, not {ridge!r}")
    if not ridge:
        check_connected(wins, items)
    strengths, games = np.zeros(len(wins)), wins + wins.T
    for _ in range(_STEPS):
        chances = expit(np.subtract.outer(strengths, strengths))
        covariance = _inverse(games * chances * (1 - chances), ridge)
        step = covariance @ (wins.sum(axis=1) - (games * chances).sum(axis=1) - ridge * strengths)
        if np.abs(step).max() <= _CLOSE:
            return strengths + step, covariance
        now = _log_likelihood(wins, strengths, ridge)
        # Far from the peak a full step may overshoot; the slack ignores rounding at the peak.
        while _log_likelihood(wins, strengths + step, ridge) < now - abs(now) * _CLOSE:
            step = step / 2
        strengths = strengths + step
    raise ValueError(f"the ratings of {len(wins)} items did not converge in {_STEPS} steps: set ridge=")


def _inverse(information: Array, ridge: float) -> Array:
    """Return the inverse of the information among strengths that sum to 0.

    `information` holds its negative off-diagonals. Strengths that all move together have no information: a number is
    put in for them before inverting, and taken out after.
    """
    size, rows = len(information), information.sum(axis=1)
    together = float(rows.mean()) + ridge
    matrix = np.diag(rows + ridge) - information + (together - ridge) / size
    return np.asarray(np.linalg.inv(matrix) - 1 / (together * size), dtype=np.float64)


def _log_likelihood(wins: Array, strengths: Array, ridge: float) -> float:
    return float((wins * log_expit(np.subtract.outer(strengths, strengths))).sum() - ridge * strengths @ strengths / 2)


def _spread_of_scores(pairs: Pairs, strengths: Array, codes: npt.NDArray[np.intp], count: int) -> Array:
    """Return the sum over clusters of the outer products of their scores, corrected for few clusters."""
    size = len(strengths)
    surprise = pairs.scores - expit(strengths[pairs.first] - strengths[pairs.second])
    of_first = np.bincount(codes * size + pairs.first, weights=surprise, minlength=count * size)
    of_second = np.bincount(codes * size + pairs.second, weights=surprise, minlength=count * size)
    scores = (of_first - of_second).reshape(count, size)
    return np.asarray(scores.T @ scores * (count / (count - 1)), dtype=np.float64)


def _ratings(
    items: tuple[Hashable, ...],
    strengths: Array,
    covariance: Array,
    comparisons: float,
    dof: int | None,
    level: float,
    method: str,
    ridge: float,
) -> Ratings:
    # Inversion leaves a matrix that is symmetric except for its last bits.
    covariance = (covariance + covariance.T) / 2
    covariance.setflags(write=False)
    name = f"{method}, ridge {ridge:g}" if ridge else method
    few_clusters = dof is not None and dof < 2 * len(items)
    return Ratings(
        items=items,
        strengths=tuple(strengths.tolist()),
        intervals=tuple(
            make_interval(float(strength), float(variance), dof, level, name)
            for strength, variance in zip(strengths, np.diag(covariance), strict=True)
        ),
        covariance=covariance,
        comparisons=comparisons,
        dof=dof,
        level=level,
        method=name,
        note=f"{(dof or 0) + 1} clusters for {len(items)} items: with so few, errors may be too small"
        if few_clusters
        else "",
    )


def make_interval(estimate: float, variance: float, dof: int | None, level: float, method: str) -> Interval:
    """Return the normal or t interval of one strength or difference."""
    se = max(variance, 0.0) ** 0.5
    if dof is None:
        return normal_interval(estimate, se, level=level, method=method)
    return t_interval(estimate, se, dof, level=level, method=method)
