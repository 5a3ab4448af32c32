"""Shapley values of a score over the segments of a prompt, with joint intervals.

v(S) is the mean score of the requests in which only the segments of S stay. The Shapley value of segment i is the mean of
v(S + i) - v(S) over all orders in which segments can be added (Shapley 1953), S being those before i. Values are means over
orders, so that they sum to v(all) - v(none) whichever orders are used.

A set all of whose draws are lost has no score. Orders that need it are left out, and with an order its antithetic partner. What
remains still has the sum above, but is the mean of other orders: exact mode then gives no intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import ROUNDING, Array, check_share
from pytest_crucible.stats.attribution.interactions import Interaction, index_interactions, probe_interactions
from pytest_crucible.stats.attribution.orders import Marginals, exact_marginals, permutation_marginals
from pytest_crucible.stats.attribution.replies import SetScores, Variances, average_draws
from pytest_crucible.stats.attribution.sets import PAIRS_FOR_INTERVALS, SetPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attribution:
    """The parts of v(all) - v(none) due to each segment. NaN is what the scores at hand do not give."""

    whole: float
    """The score with all segments."""
    empty: float
    """The score with none."""
    shapley: Array
    """One value for each segment; they sum to whole - empty."""
    low: Array
    """Joint interval: all values are inside at the confidence. Equal to `shapley` if exact and not random."""
    high: Array
    left_out: Array
    """whole minus the score without this segment alone."""
    interactions: tuple[Interaction, ...]
    """(i, j, value): all pairs if exact, else those of the three largest values whose sets have scores."""
    is_exact: bool
    """True if all orders are averaged: all sets were planned, and none is missing."""
    requested: int
    missing: int
    """Requests that have no score: lost, or not yet sent."""


def attribute(plan: SetPlan, scores: npt.ArrayLike, *, confidence: float = 0.95) -> Attribution:
    """Return the attribution of sets x draws scores, rows as in `plan.masks`, NaN where a score is missing.

    Intervals hold jointly for all segments, over both the choice of permutations and the draws of random replies. They need
    two draws of a set if replies are random, and `PAIRS_FOR_INTERVALS` antithetic pairs. Raises ValueError for another shape,
    infinite scores, or a confidence that is not between 0 and 1.

    >>> from pytest_crucible.stats.attribution.sets import plan_sets
    >>> plan = plan_sets(2, 4, is_random=False, seed=0)
    >>> attribute(plan, [[1.0], [0.2], [0.2], [0.2]]).shapley.tolist()  # both are necessary
    [0.4, 0.4]
    """
    return _attribute(plan, [_as_table(plan, scores)], confidence)


def attribute_difference(
    plan: SetPlan, candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, confidence: float = 0.95
) -> Attribution:
    """Return the attribution of candidate minus baseline, two arms that answered the same sets.

    Permutations are the same for both, so that their choice cancels as far as the arms agree. A set that either lacks is missing;
    requests are counted for both. Shapes and errors as `attribute`.
    """
    return _attribute(plan, [_as_table(plan, candidate), _as_table(plan, baseline)], confidence)


def shapley_values(plan: SetPlan, scores: npt.ArrayLike) -> Array:
    """Return the values of `attribute` alone."""
    sets = average_draws([_as_table(plan, scores)], is_random=False)
    return _find_marginals(plan, _find_places(plan), sets.means).values(sets.means)


def _as_table(plan: SetPlan, scores: npt.ArrayLike) -> Array:
    table = np.asarray(scores, dtype=np.float64)
    if table.shape != (len(plan.masks), plan.repeats):
        raise ValueError(
            f"scores have the shape {table.shape}; the plan has {len(plan.masks)} sets x {plan.repeats} draws"
        )
    if np.isinf(table).any():
        raise ValueError("scores must be finite, or NaN where one is missing")
    return table


def _attribute(plan: SetPlan, tables: Sequence[Array], confidence: float) -> Attribution:
    check_share(confidence, "confidence")
    sets = average_draws(tables, is_random=plan.is_random)
    places = _find_places(plan)
    marginals = _find_marginals(plan, places, sets.means)
    shapley = marginals.values(sets.means)
    half = half_widths(marginals, sets, confidence)
    whole, empty = (float(sets.means[places[mask]]) for mask in (plan.whole, 0))
    lone = [places[plan.whole ^ (1 << segment)] for segment in range(plan.segments)]
    is_exact = plan.is_exact and not np.isnan(sets.means).any()
    if is_exact:
        by_number = np.array([sets.means[places[mask]] for mask in range(2**plan.segments)])
        interactions = index_interactions(plan.segments, by_number)
    else:
        interactions = probe_interactions(plan, places, sets.means, shapley)
    return Attribution(
        whole=whole,
        empty=empty,
        shapley=shapley,
        low=shapley - half,
        high=shapley + half,
        left_out=whole - sets.means[lone],
        interactions=interactions,
        is_exact=is_exact,
        requested=sum(table.size for table in tables),
        missing=sum(int(np.isnan(table).sum()) for table in tables),
    )


def _find_places(plan: SetPlan) -> dict[int, int]:
    return {mask: place for place, mask in enumerate(plan.masks)}


def _find_marginals(plan: SetPlan, places: Mapping[int, int], means: Array) -> Marginals:
    find = exact_marginals if plan.is_exact else permutation_marginals
    return find(plan, places, ~np.isnan(means))


def half_widths(marginals: Marginals, sets: SetScores, confidence: float) -> Array:
    """Return the half-width of each segment's interval; NaN where it is not estimable.

    It is not with one draw of random replies, fewer than `PAIRS_FOR_INTERVALS` pairs, or all sets of which some are missing.

    Permutations: the variance of the values between antithetic pairs, which also has the noise of the replies, but for the sets
    that several pairs share. That of a segment is averaged with the largest of all segments: three segments of which all are
    needed change by the same in (2/3)^pairs of all plans although their value is another, and then others change (own variances
    cover in 1 % of runs where a weighted majority of 12 segments decides). Draws: a set's variance times its weight in each
    value, for what pairs share. Quantiles: Student's t with Satterthwaite's degrees of freedom, at Sidak's share of the level.
    """
    is_exact = not marginals.pairs
    too_few = np.isnan(sets.means).any() if is_exact else marginals.pairs < PAIRS_FOR_INTERVALS
    if too_few or not sets.variances:
        return np.full(marginals.segments, np.nan)
    if is_exact and not sets.is_random:
        return np.zeros(marginals.segments)
    weights = marginals.set_weights(sets.means.size)
    if is_exact:
        between, shares = (
            Variances(values=np.zeros(marginals.segments), dof=np.full(marginals.segments, np.inf)),
            weights**2,
        )
    else:
        between, shares = _vary_between_pairs(marginals, sets.means), _weigh_shared_sets(weights, marginals.pairs)
    half: Array = np.max([_multiply_errors(between, shares, own, confidence) for own in sets.variances], axis=0)
    # Equal pairs have no variance, and values that are right but for rounding.
    return half if is_exact else half + ROUNDING * marginals.segments * sets.scale


def _vary_between_pairs(marginals: Marginals, means: Array) -> Variances:
    own = marginals.pair_values(means).var(axis=0, ddof=1) / marginals.pairs
    # The largest of many variances is hardly ever small by chance.
    certainty = min(3.0, max(1.0, marginals.segments / 4))
    return Variances(values=(own + own.max()) / 2, dof=np.full(own.size, certainty * (marginals.pairs - 1)))


def _weigh_shared_sets(weights: Array, pairs: int) -> Array:
    """Return segments x sets: what the variance of a set adds to that between pairs.

    A set has the same weight, and sign, in each of the m pairs that use it. The variance between pairs has m of the m^2 products
    of these weights that the variance of the mean has; the rest is for pairs that share the set.
    """
    uses: Array = np.rint(weights * 2 * pairs)
    return uses * (uses - 1) / (4 * pairs * (pairs - 1))


def _multiply_errors(between: Variances, shares: Array, drawn: Variances, confidence: float) -> Array:
    parts = shares * drawn.values
    variance = between.values + parts.sum(axis=1)
    squares = between.values**2 / between.dof + (parts**2 / drawn.dof).sum(axis=1)
    dof = np.divide(variance**2, squares, out=np.full(variance.size, np.inf), where=squares > 0)
    tail = -np.expm1(np.log(confidence) / variance.size) / 2
    return np.asarray(-stdtrit(dof, tail) * np.sqrt(variance), dtype=np.float64)
