"""Differences v(S + i) - v(S) with their weights in each value: of all orders, or of antithetic pairs of permutations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.attribution.sets import SetPlan, prefix_sets, set_sizes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Marginals:
    """Changes by adding a segment to a set: an entry for each segment, set and antithetic pair."""

    segments: int
    segment: Codes
    larger: Codes
    """Place of the set with the segment."""
    smaller: Codes
    """Place of the set without it."""
    weight: Array
    """Weight in the value of the segment; those of a segment sum to 1."""
    pair: Codes
    """Antithetic pair of each entry; all 0 if exact."""
    pairs: int
    """Complete antithetic pairs; 0 if all orders are averaged."""

    def values(self, means: Array) -> Array:
        """Return the value of each segment; NaN without any complete order."""
        if not self.weight.size:
            return np.full(self.segments, np.nan)
        changes = self.weight * (means[self.larger] - means[self.smaller])
        return np.asarray(np.bincount(self.segment, changes, self.segments), dtype=np.float64)

    def pair_values(self, means: Array) -> Array:
        """Return pairs x segments values, whose means over the pairs are `values`."""
        changes = self.pairs * self.weight * (means[self.larger] - means[self.smaller])
        cells = self.pair * self.segments + self.segment
        values = np.bincount(cells, changes, self.pairs * self.segments).reshape(self.pairs, self.segments)
        return np.asarray(values, dtype=np.float64)

    def set_weights(self, sets: int) -> Array:
        """Return segments x sets: the weight of each set's score in each value, without its sign."""
        cells = np.concatenate([self.segment * sets + self.larger, self.segment * sets + self.smaller])
        weights = np.bincount(cells, np.tile(self.weight, 2), self.segments * sets)
        return np.asarray(weights.reshape(self.segments, sets), dtype=np.float64)


def exact_marginals(plan: SetPlan, places: Mapping[int, int], is_scored: Array) -> Marginals:
    """Return the marginals of all orders in which each set has a score, each order with the same weight.

    An order is a path from the empty set to the whole one; paths through a set are those to it times those from it.
    """
    n = plan.segments
    sets = np.arange(2**n)
    place = np.array([places[mask] for mask in range(2**n)], dtype=np.intp)
    to_set = _count_paths(n, is_scored[place])
    from_set = _count_paths(n, is_scored[place][::-1])[::-1]
    lacking = [sets[(sets >> segment) & 1 == 0] for segment in range(n)]
    segment = np.repeat(np.arange(n), 2 ** (n - 1))
    smaller = np.concatenate(lacking)
    larger = smaller | (1 << segment)
    paths = to_set[smaller] * from_set[larger]
    used = paths > 0
    return Marginals(
        segments=n,
        segment=segment[used],
        larger=place[larger[used]],
        smaller=place[smaller[used]],
        weight=paths[used] / to_set[-1],
        pair=np.zeros(int(used.sum()), dtype=np.intp),
        pairs=0,
    )


def _count_paths(segments: int, is_open: Array) -> Array:
    """Return the number of orders that lead from the empty set to each set through open sets."""
    sizes = set_sizes(segments)
    if is_open.all():
        return np.cumprod(np.maximum(np.arange(segments + 1.0), 1.0))[sizes]
    sets, bits = np.arange(2**segments), 1 << np.arange(segments)
    paths = np.zeros(sets.size)
    paths[0] = is_open[0]
    for size in range(1, segments + 1):
        level = sets[(sizes == size) & is_open]
        # The set without each of its segments; none for those that it lacks.
        paths[level] = (paths[level[:, None] & ~bits] * (level[:, None] & bits > 0)).sum(axis=1)
    return paths


def permutation_marginals(plan: SetPlan, places: Mapping[int, int], is_scored: Array) -> Marginals:
    """Return the marginals of the permutations, without the antithetic pairs that lack the score of a set."""
    chains = np.array([[places[mask] for mask in prefix_sets(order)] for order in plan.permutations], dtype=np.intp)
    complete = is_scored[chains].all(axis=1).reshape(-1, 2).all(axis=1)
    chains = chains[np.repeat(complete, 2)]
    orders = np.array(plan.permutations, dtype=np.intp)[np.repeat(complete, 2)]
    pairs = len(orders) // 2
    return Marginals(
        segments=plan.segments,
        segment=orders.ravel(),
        larger=chains[:, 1:].ravel(),
        smaller=chains[:, :-1].ravel(),
        weight=np.full(orders.size, 1 / max(len(orders), 1)),
        pair=np.repeat(np.arange(pairs), 2 * plan.segments),
        pairs=pairs,
    )
