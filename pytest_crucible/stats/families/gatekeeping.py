"""Questions in a declared order: later ones are asked only when the earlier ones are answered.

Every function gives adjusted p-values such that "adjusted <= alpha" is the decision. The order is part of the plan: one
chosen after the p-values are known keeps no error rate at all. None, a question without a p-value, is never answered:
it stays None, and closes the gate behind it (what comes after gets 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, get_args

from pytest_crucible.stats.families.adjust import adjust
from pytest_crucible.stats.observations import check_choice

Within = Literal["bonferroni", "holm", "hochberg", "hommel", "fixed sequence", "all"]
"""How the questions of one family share alpha; `all` is one question, whether all of them hold."""
PValues = Sequence[float | None]


def fixed_sequence(p_values: PValues) -> list[float | None]:
    """Adjusted p-values of questions asked one after the other, each at full alpha, up to the first that fails.

    The running maximum. A false alarm needs the first true null hypothesis to be rejected at alpha, so the chance of
    any is at most alpha, whatever the dependence. Maurer, Hothorn & Lehmacher 1995.

    >>> fixed_sequence([0.01, 0.04, 0.02, 0.2, 0.001])
    [0.01, 0.04, 0.04, 0.2, 0.2]
    """
    checked = _checked(p_values)
    running = accumulate((1.0 if p is None else p for p in checked), max)
    return [None if p is None else largest for p, largest in zip(checked, running, strict=True)]


def intersection_union(p_values: PValues) -> float | None:
    """The p-value of "all of them hold": the largest one, without any correction. None when one is missing.

    If any does not hold, rejecting all means rejecting that one, which happens with chance at most alpha. Berger 1982.
    It is what a release asks whose gates must all pass. Raises ValueError without a question.

    >>> intersection_union([0.01, 0.04, 0.03])
    0.04
    """
    checked = _checked(p_values)
    if not checked:
        raise ValueError("all of 0 questions hold without any evidence: wanted at least 1 p-value")
    measured = [p for p in checked if p is not None]
    return max(measured) if len(measured) == len(checked) else None


def serial_gatekeeping(
    families: Sequence[PValues], *, within: Within | Sequence[Within] = "holm"
) -> list[list[float | None]]:
    """Adjusted p-values of families asked in order, each at full alpha once all of the earlier ones has been proven.

    Within a family they are adjusted by `within` (one for all families, or one for each), and are never below the
    largest of any earlier family. Take the first family that holds a true null hypothesis: a false alarm in it has a
    chance of at most alpha, by its own method, and one after it needs that whole family rejected, hence a false alarm
    in it. So the chance of any false alarm is at most alpha. Bauer 1991; Westfall & Krishen 2001.

    Targets first, all of which must hold, then the comparisons, by Holm:

    >>> serial_gatekeeping([[0.01, 0.03], [0.02, 0.01, 0.2]], within=["all", "holm"])
    [[0.03, 0.03], [0.04, 0.03, 0.2]]
    """
    methods: Sequence[Within] = [within] * len(families) if isinstance(within, str) else within
    if len(methods) != len(families):
        raise ValueError(f"wanted one method for each family: {len(methods)} methods for {len(families)} families")
    passed, adjusted = 0.0, []
    for family, method in zip(families, methods, strict=True):
        own = _within(_checked(family), method)
        adjusted.append([None if p is None else max(p, passed) for p in own])
        passed = max([passed, *(1.0 if p is None else p for p in own)])
    return adjusted


def _within(family: list[float | None], method: Within) -> list[float | None]:
    check_choice(method, get_args(Within), "within")  # false discovery rates guard no gate
    if method == "fixed sequence":
        return fixed_sequence(family)
    if method == "all":
        together = intersection_union(family) if family else None
        return [None if p is None else 1.0 if together is None else together for p in family]
    # A question without a p-value was asked, so it counts.
    return adjust(family, method, family_size=len(family))


def _checked(p_values: PValues) -> list[float | None]:
    adjust(p_values, "bonferroni")  # refuses what is no p-value
    return list(p_values)
