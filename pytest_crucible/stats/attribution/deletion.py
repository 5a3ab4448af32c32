"""Deletion curve: the score as segments are removed, largest value first, against random orders of removing.

An order is good when scores fall early, so that its mean score over the steps is low. p is the share of random orders, the order
itself among them, whose mean is as low (Phipson & Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39). If replies are random, the
first half of the draws chooses the order and the second judges it: with the same draws in both, pure noise beats random orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, permutations
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import ROUNDING, Array
from pytest_crucible.stats.attribution.sets import ORDERS_FOR_P, Permutation, SetPlan, draw_orders, removal_steps
from pytest_crucible.stats.attribution.values import shapley_values

Verdict = Literal["better", "no better", "undefined"]

ALPHA = 0.05
FEWEST_SEGMENTS = 4
"""Three segments have 6 orders, of which none can have a p-value below .05."""
# All orders of at most this many segments are compared, 5,040; of more segments as many random ones.
_ALL_ORDERS, _MOST_ORDERS = 7, 5_040
# Random orders are shown by their middle 90 %.
_BEYOND_BAND = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """An order of removing segments, other orders to compare it with, and the sets that they need."""

    order: Permutation
    """Largest value first; empty if values are missing."""
    other_orders: tuple[Permutation, ...]
    steps: tuple[int, ...]
    """Numbers of removed segments at which scores are compared."""
    masks: tuple[int, ...]
    """Sets that the plan lacks; none if it is exact."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeletionCurve:
    """The score after each step of removing segments, beside that of random orders."""

    order: Permutation
    removed: tuple[int, ...]
    """Numbers of removed segments: 0, the steps, all."""
    curve: Array
    """Scores of the order; NaN where one is missing."""
    random_mean: Array
    random_low: Array
    """Lower end of the middle 90 % of random orders."""
    random_high: Array
    random_orders: int
    p: float | None
    verdict: Verdict
    reason: str
    """Reason for the verdict "undefined"; empty for the others."""


def plan_deletion(plan: SetPlan, scores: npt.ArrayLike, calls: int) -> DeletionPlan:
    """Return the orders to compare, and the sets beyond the plan that fit into `calls` requests in all.

    `scores` are sets x draws, as in `attribute`; sets at the end of the plan may lack rows. The other orders are all orders,
    or 5,040 random ones, if the plan is exact; else its permutations, and as many more as `ORDERS_FOR_P` lacks if
    all their sets fit.
    """
    order = _choose_order(plan, np.asarray(scores, dtype=np.float64))
    steps = removal_steps(plan.segments, is_exact=plan.is_exact)
    if plan.is_exact or not order:
        others = tuple(_many_orders(plan, order))
        return DeletionPlan(order=order, other_orders=others, steps=steps, masks=())
    return _fit_orders(plan, order, steps, calls // plan.repeats)


def judge_deletion(plan: SetPlan, deletion: DeletionPlan, scores: npt.ArrayLike) -> DeletionCurve:
    """Return the deletion curve from sets x draws scores of the plan extended by the sets of `deletion`.

    Other orders that lack a score are left out. p is None below four segments, below `ORDERS_FOR_P` other orders, where a score
    of the order is missing, where random replies have one draw each, and where no score differs.
    """
    means = _judging_means(plan, np.asarray(scores, dtype=np.float64))
    removed = (0, *deletion.steps, plan.segments)
    curve = (
        _scores_along(plan, means, [deletion.order], removed)[0] if deletion.order else np.full(len(removed), np.nan)
    )
    others = _scores_along(plan, means, deletion.other_orders, removed)
    others = others[~np.isnan(others).any(axis=1)]
    reason = _find_reason(plan, curve, others, means)
    p = None if reason else _share_as_low(curve, others)
    low, mean, high = _summarize_orders(others)
    return DeletionCurve(
        order=deletion.order,
        removed=removed,
        curve=curve,
        random_mean=mean,
        random_low=low,
        random_high=high,
        random_orders=len(others),
        p=p,
        verdict="undefined" if p is None else "better" if p <= ALPHA else "no better",
        reason=reason,
    )


def _choose_order(plan: SetPlan, scores: Array) -> Permutation:
    draws = plan.repeats - plan.repeats // 2 if plan.is_random else plan.repeats
    rows = replace(plan, repeats=draws, masks=plan.masks[: len(scores)])
    shapley = shapley_values(rows, scores[:, :draws])
    return () if np.isnan(shapley).any() else tuple(np.argsort(-shapley, kind="stable").tolist())


def _judging_means(plan: SetPlan, scores: Array) -> Array:
    judging = scores[:, plan.repeats - plan.repeats // 2 :] if plan.is_random and plan.repeats > 1 else scores
    counts = (~np.isnan(judging)).sum(axis=1)
    return np.where(counts > 0, np.nansum(judging, axis=1) / np.maximum(counts, 1), np.nan)


def _many_orders(plan: SetPlan, order: Permutation) -> Iterator[Permutation]:
    if plan.segments <= _ALL_ORDERS:
        return (other for other in permutations(range(plan.segments)) if other != order)
    return islice(draw_orders(plan.segments, plan.seed), _MOST_ORDERS)


def _fit_orders(plan: SetPlan, order: Permutation, steps: Sequence[int], most_sets: int) -> DeletionPlan:
    """Return the permutations of the plan, and further orders up to `ORDERS_FOR_P` if the sets of all fit."""
    further = tuple(islice(draw_orders(plan.segments, plan.seed), len(plan.permutations), ORDERS_FOR_P))
    # Fewer orders than give a p-value are not worth their requests.
    for others in (plan.permutations + further, plan.permutations):
        lines = (_sets_along(plan, each, steps) for each in (order, *others))
        masks = tuple(dict.fromkeys(chain(plan.masks, *lines)))[len(plan.masks) :]
        if len(plan.masks) + len(masks) <= most_sets:
            return DeletionPlan(order=order, other_orders=others, steps=tuple(steps), masks=masks)
    return DeletionPlan(order=order, other_orders=plan.permutations, steps=tuple(steps), masks=())


def _sets_along(plan: SetPlan, order: Permutation, steps: Sequence[int]) -> list[int]:
    return [plan.whole ^ sum(1 << segment for segment in order[:step]) for step in steps]


def _scores_along(plan: SetPlan, means: Array, orders: Sequence[Permutation], removed: Sequence[int]) -> Array:
    """Return orders x steps scores, NaN where a set has none."""
    # Sets of more than 62 segments are too large for integers of 64 bits.
    kind = np.int64 if plan.segments < 63 else object
    bits = np.array([1 << segment for segment in range(plan.segments)], dtype=kind)
    masks = np.array(plan.masks, dtype=kind)
    lost = np.cumsum(bits[np.array(orders, dtype=np.intp).reshape(-1, plan.segments)], axis=1)
    stay = plan.whole - np.concatenate([np.zeros((len(lost), 1), dtype=kind), lost], axis=1)[:, list(removed)]
    ascending = np.argsort(masks)
    places = ascending[np.minimum(np.searchsorted(masks, stay, sorter=ascending), len(masks) - 1)]
    return np.where(masks[places] == stay, means[places], np.nan)


def _find_reason(plan: SetPlan, curve: Array, others: Array, means: Array) -> str:
    """Return the reason for which no p exists, else an empty text."""
    if plan.segments < FEWEST_SEGMENTS:
        return f"fewer than {FEWEST_SEGMENTS} segments have too few orders"
    if plan.is_random and plan.repeats < 2:
        return "replies vary and each version has a single one"
    if np.isnan(curve).any():
        return "scores of the order are missing"
    if len(others) < ORDERS_FOR_P:
        return f"{len(others)} random orders are too few; {ORDERS_FOR_P} are needed"
    if np.nanmax(means) - np.nanmin(means) <= ROUNDING * np.nanmax(np.abs(means)):
        return "the metric never changed"
    return ""


def _share_as_low(curve: Array, others: Array) -> float:
    level, levels = curve[1:-1].mean(), others[:, 1:-1].mean(axis=1)
    slack = ROUNDING * max(np.abs(curve).max(), np.abs(others).max())
    return float((1 + np.count_nonzero(levels <= level + slack)) / (1 + len(levels)))


def _summarize_orders(others: Array) -> tuple[Array, Array, Array]:
    if not len(others):
        return (np.full(others.shape[1], np.nan),) * 3
    ascending = np.sort(others, axis=0)
    cut = int(_BEYOND_BAND * len(others))
    return ascending[cut], others.mean(axis=0), ascending[-1 - cut]
