"""Gatekeeping: hypotheses in a declared order, where later ones are tested only after earlier ones are rejected.

Every function returns adjusted p-values such that "adjusted <= alpha" is the decision. The order is part of the plan:
an order chosen after seeing the p-values controls no error rate. None, a hypothesis without a p-value, is never
rejected: it stays None, and closes the gate behind it (later hypotheses get 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, get_args

from pytest_crucible.stats.arrays import check_choice
from pytest_crucible.stats.multiplicity.adjust import adjust

Within = Literal["bonferroni", "holm", "hochberg", "hommel", "fixed sequence", "all"]
"""How the hypotheses of one family share alpha; `all` is one hypothesis: that all of them hold."""
PValues = Sequence[float | None]


def fixed_sequence(p_values: PValues) -> list[float | None]:
    """Return adjusted p-values of hypotheses tested in order, each at full alpha, up to the first failure.

    The running maximum. A false alarm needs the first true null hypothesis to be rejected at alpha, so the chance of
    any false alarm is at most alpha under any dependence. Maurer, Hothorn & Lehmacher 1995.

    >>> fixed_sequence([0.01, 0.04, 0.02, 0.2, 0.001])
    [0.01, 0.04, 0.04, 0.2, 0.2]
    """
    values = _check_p_values(p_values)
    running = accumulate((1.0 if p is None else p for p in values), max)
    return [None if p is None else largest for p, largest in zip(values, running, strict=True)]


def intersection_union(p_values: PValues) -> float | None:
    """Return the p-value of "all of them hold": the largest one, without correction; None when one is missing.

    If any does not hold, claiming all means claiming that one, which happens with probability at most alpha. Berger
    1982. Use it for a release whose gates must all pass. Raises ValueError without p-values.

    >>> intersection_union([0.01, 0.04, 0.03])
    0.04
    """
    values = _check_p_values(p_values)
    if not values:
        raise ValueError("0 p-values: expected at least 1")
    measured = [p for p in values if p is not None]
    return max(measured) if len(measured) == len(values) else None


def serial_gatekeeping(
    families: Sequence[PValues], *, within: Within | Sequence[Within] = "holm"
) -> list[list[float | None]]:
    """Return adjusted p-values of families tested in order, each at full alpha once the earlier ones are proven.

    Within a family they are adjusted by `within` (one method for all families, or one for each), and are never below
    the largest of any earlier family. Take the first family that holds a true null hypothesis: a false alarm in it has
    probability at most alpha, by its own method, and one after it needs that whole family rejected, hence a false alarm
    in it. So the chance of any false alarm is at most alpha. Bauer 1991; Westfall & Krishen 2001.

    Targets first, all of which must hold, then the comparisons, by Holm:

    >>> serial_gatekeeping([[0.01, 0.03], [0.02, 0.01, 0.2]], within=["all", "holm"])
    [[0.03, 0.03], [0.04, 0.03, 0.2]]
    """
    methods: Sequence[Within] = [within] * len(families) if isinstance(within, str) else within
    if len(methods) != len(families):
        raise ValueError(f"{len(families)} families need 1 or {len(families)} methods in within, not {len(methods)}")
    gate, adjusted = 0.0, []
    for family, method in zip(families, methods, strict=True):
        adjusted_family = _adjust_family(_check_p_values(family), method)
        adjusted.append([None if p is None else max(p, gate) for p in adjusted_family])
        gate = max([gate, *(1.0 if p is None else p for p in adjusted_family)])
    return adjusted


def _adjust_family(family: list[float | None], method: Within) -> list[float | None]:
    # Methods that control the false discovery rate are not allowed: they do not bound the chance of a false alarm.
    check_choice(method, get_args(Within), "within")
    if method == "fixed sequence":
        return fixed_sequence(family)
    if method == "all":
        joint = intersection_union(family) if family else None
        return [None if p is None else 1.0 if joint is None else joint for p in family]
    # A hypothesis without a p-value was tested too, so it counts.
    return adjust(family, method, family_size=len(family))


def _check_p_values(p_values: PValues) -> list[float | None]:
    # Called for its checks only: it raises ValueError for an invalid p-value.
    adjust(p_values, "bonferroni")
    return list(p_values)
