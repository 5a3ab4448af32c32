"""Sets of segments to request: all of them, or those of antithetic permutations.

A set is an integer whose bit i is 1 when segment i stays. A permutation adds the segments one after another to the empty set,
so that it needs the sets of its prefixes. Its antithetic partner adds them in the opposite order: the mean of both is exact for
every function in which segments act alone or in pairs (Mitchell et al. 2022, JMLR 23:43).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass

Permutation = tuple[int, ...]

FEWEST_PAIRS = 2
"""Antithetic pairs of a plan: a single pair does not show how much permutations differ."""
PAIRS_FOR_INTERVALS = 4
"""Antithetic pairs below which there are no intervals."""
ORDERS_FOR_P = 20
"""Random orders of a deletion curve: with fewer no p-value is below .05."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan:
    """The sets to request, in the order of requesting: whole, empty, each segment left out, then round by round."""

    segments: int
    repeats: int
    """Draws of each set."""
    is_exact: bool
    is_random: bool
    masks: tuple[int, ...]
    """Distinct sets; bit i is 1 when segment i stays."""
    permutations: tuple[Permutation, ...]
    """Empty if exact. Antithetic pairs stand side by side."""
    seed: int

    @property
    def whole(self) -> int:
        """The set of all segments."""
        return (1 << self.segments) - 1


def plan_sets(segments: int, calls: int, *, is_random: bool, seed: int) -> SetPlan:
    """Return the sets that at most `calls` requests cover.

    All 2^segments sets if they fit, each with as many draws as fit if replies are random. Otherwise antithetic permutations; if
    replies are random, with two draws of each set, which show how much replies vary. One draw of each, and so no intervals,
    when two are too many. Room is left for the sets of interactions and of the deletion curve unless the permutations are
    few. Raises ValueError below one segment, and with the number of requests needed when `calls` is smaller.

    >>> plan_sets(2, 10, is_random=False, seed=0).masks
    (3, 0, 2, 1)
    """
    if segments < 1:
        raise ValueError(f"attribution needs at least 1 segment, not {segments}")
    _check_calls(segments, calls)
    if 2**segments * (1 + is_random) <= calls:
        return _plan_all(segments, calls // 2**segments if is_random else 1, is_random, seed)
    plan = _plan_pairs(segments, calls, 1 + is_random, is_random, seed)
    if is_random and len(plan.permutations) < 2 * PAIRS_FOR_INTERVALS:
        if 2**segments <= calls:
            return _plan_all(segments, 1, is_random, seed)
        plan = _plan_pairs(segments, calls, 1, is_random, seed)
    return plan


def extend_plan(plan: SetPlan, masks: Iterable[int]) -> SetPlan:
    """Return the plan with more sets after its own, those that it has already left out.

    >>> extend_plan(plan_sets(2, 10, is_random=False, seed=0), [3]).masks
    (3, 0, 2, 1)
    """
    return replace(plan, masks=tuple(dict.fromkeys(chain(plan.masks, masks))))


def draw_orders(segments: int, seed: int) -> Iterator[Permutation]:
    """Yield random permutations of the segments, each followed by its antithetic partner."""
    rng = np.random.default_rng(seed)
    while True:
        permutation = tuple(rng.permutation(segments).tolist())
        yield permutation
        yield permutation[::-1]


def prefix_sets(permutation: Permutation) -> Iterator[int]:
    """Yield the empty set, and the set after each segment of the permutation was added.

    >>> list(prefix_sets((2, 0, 1)))
    [0, 4, 5, 7]
    """
    mask = 0
    yield mask
    for segment in permutation:
        mask |= 1 << segment
        yield mask


@lru_cache(maxsize=4)
def set_sizes(segments: int) -> npt.NDArray[np.intp]:
    """Return the number of segments in each of the 2^segments sets, by their number.

    >>> set_sizes(2).tolist()
    [0, 1, 1, 2]
    """
    sizes = np.zeros(1, dtype=np.intp)
    for _ in range(segments):
        sizes = np.concatenate([sizes, sizes + 1])
    return sizes


def removal_steps(segments: int, *, is_exact: bool) -> tuple[int, ...]:
    """Return the numbers of removed segments at which deletion curves are compared.

    Exact mode has the sets of each number. Otherwise powers of two, so that one more order costs few requests.

    >>> removal_steps(5, is_exact=True), removal_steps(12, is_exact=False)
    ((1, 2, 3, 4), (1, 2, 4, 8))
    """
    steps = range(1, segments)
    return tuple(steps if is_exact else (step for step in steps if step & (step - 1) == 0))


def _plan_all(segments: int, repeats: int, is_random: bool, seed: int) -> SetPlan:
    # Whole orders first, so that values are known early when requests end before all sets are scored.
    orders = islice(draw_orders(segments, seed), 2 * segments)
    masks = tuple(dict.fromkeys(chain(_first_sets(segments), *map(prefix_sets, orders), range(2**segments))))
    return SetPlan(
        segments=segments,
        repeats=repeats,
        is_exact=True,
        is_random=is_random,
        masks=masks,
        permutations=(),
        seed=seed,
    )


def _plan_pairs(segments: int, calls: int, repeats: int, is_random: bool, seed: int) -> SetPlan:
    """Return as many antithetic pairs as fit, and leave room for further sets if it costs no interval."""
    plan = SetPlan(
        segments=segments,
        repeats=repeats,
        is_exact=False,
        is_random=is_random,
        masks=tuple(_first_sets(segments)),
        permutations=(),
        seed=seed,
    )
    roomy = _add_pairs(plan, calls // repeats, seed, has_room=True)
    if len(roomy.permutations) >= 2 * PAIRS_FOR_INTERVALS:
        return roomy
    return _add_pairs(plan, calls // repeats, seed, has_room=False)


def _add_pairs(plan: SetPlan, most_sets: int, seed: int, *, has_room: bool) -> SetPlan:
    sets, permutations = dict.fromkeys(plan.masks), list[Permutation]()
    orders = draw_orders(plan.segments, seed)
    for order, partner in zip(orders, orders, strict=True):
        more = sets | dict.fromkeys(chain(prefix_sets(order), prefix_sets(partner)))
        room = _count_later_sets(plan.segments, len(permutations) + 2) if has_room else 0
        if len(more) + room > most_sets:
            break
        sets = more
        permutations += [order, partner]
    return replace(plan, masks=tuple(sets), permutations=tuple(permutations))


def _count_later_sets(segments: int, orders: int) -> int:
    """Return the number of further sets: two of interactions, those of the curve, and of random orders that are missing."""
    new_sets = max(0, len(removal_steps(segments, is_exact=False)) - 1)
    return 2 + new_sets * (1 + max(0, ORDERS_FOR_P - orders))


def _first_sets(segments: int) -> Iterator[int]:
    whole = 2**segments - 1
    yield whole
    yield 0
    yield from (whole ^ (1 << segment) for segment in range(segments))


def _check_calls(segments: int, calls: int) -> None:
    """Raise ValueError unless the calls suffice for all sets, or for the fewest permutations."""
    by_pairs = 2 + segments + 2 * FEWEST_PAIRS * max(0, segments - 2)
    needed, parts = 2**segments, "all sets of segments"
    if by_pairs < needed:
        needed, parts = by_pairs, "the whole prompt, the empty one, one left out each, two antithetic pairs"
    if calls < needed:
        raise ValueError(f"{segments} segments need {needed} ({parts})")
