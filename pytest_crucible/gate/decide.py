"""Decisions on one bounded value: a state for a target or a comparison, and whether it is proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pytest_crucible.records import BoundedValue, Contrast, State, Target

# State, and whether the data prove it.
Decision = tuple[State, bool]
# 19 of 20 must meet 0.95 also where the mean comes out a last digit short.
_ROUNDING = 1e-12


def decide_target(target: Target, reading: BoundedValue, *, strict: bool) -> Decision:
    """Decide a target by the estimate, or (decide="bound", or strict) only by proof."""
    if reading.value is None:
        return "undecided", False
    proven_met = _surely(target, reading)
    proven_missed = _surely_not(target, reading)
    # An equality has no proof to wait for, so the estimate decides it under any rule.
    if (strict or target.decide == "bound") and target.relation != "==":
        state: State = "met" if proven_met else "missed" if proven_missed else "undecided"
        return state, proven_met or proven_missed
    met = holds(target.relation, reading.value, target.value)
    return ("met", proven_met) if met else ("missed", proven_missed)


def holds(relation: str, value: float, limit: float) -> bool:
    """Return whether a value satisfies a target."""
    slack = _ROUNDING * max(1.0, abs(limit))
    relations: dict[str, Callable[[], bool]] = {
        ">=": lambda: value >= limit - slack,
        "<=": lambda: value <= limit + slack,
        ">": lambda: value > limit + slack,
        "<": lambda: value < limit - slack,
        "==": lambda: abs(value - limit) <= slack,
    }
    return relations[relation]()


def _surely(target: Target, reading: BoundedValue) -> bool:
    """Return whether the one-sided bound itself satisfies the target. An equality can only be refuted, never proven."""
    bound = {">": reading.lower, "<": reading.upper}.get(target.relation[0])
    return bound is not None and holds(target.relation, bound, target.value)


def _surely_not(target: Target, reading: BoundedValue) -> bool:
    if target.relation == "==":
        below = reading.upper is not None and reading.upper < target.value
        return below or (reading.lower is not None and reading.lower > target.value)
    bound = {">": reading.upper, "<": reading.lower}[target.relation[0]]
    return bound is not None and not holds(target.relation, bound, target.value)


class AdjustedPValues(NamedTuple):
    """The p-values of a comparison, each adjusted over its family of the session; None if the data allow none."""

    alike: float | None
    """Of the test that the arms are alike, which can fail the session."""
    proof: float | None
    """Of the bounds of the difference."""
    smallest: float | None = None
    """The smallest that `alike` could be with so many samples or groups; None if its test has no such limit."""


def decide_comparison(
    contrast: Contrast, reading: BoundedValue, adjusted: AdjustedPValues, *, alpha: float
) -> Decision:
    """Decide a comparison: with a margin by the one-sided bounds, without one by the test that the arms are alike.

    Arms that are not alike decide by the estimate: the candidate is worse, or it is not. Whether the difference itself is proven
    is the question of its bounds. With a relevant difference the lower bound decides first: if it excludes a relevant
    regression, a difference is too small to matter.
    """
    if reading.value is None:
        return "undecided", False
    if contrast.margin is not None:
        return _margin_ruling(contrast, contrast.limit or 0.0, reading)
    if excludes_relevant_regression(contrast, reading) or proves_improvement(contrast, reading):
        return "met", True
    if adjusted.alike is None:
        return "undecided", False
    # An estimate of exactly 0 favours neither arm, so no p-value shows a direction.
    if adjusted.alike <= alpha and reading.value != 0:
        proven = adjusted.proof is not None and adjusted.proof <= alpha
        return _direction_ruling(contrast, reading.value, proven)
    # Without a proof a regression gate passes; but a test that could not have failed is no test.
    powerless = adjusted.smallest is not None and adjusted.smallest > alpha
    return ("undecided" if powerless or contrast.alternative == "superior" else "met"), False


def _direction_ruling(contrast: Contrast, value: float, proven: bool) -> Decision:
    """Return the state of a comparison of arms that are not alike."""
    if value < 0:
        return "missed", proven
    # Proof of an improvement is the question of its one-sided bound, which did not give it.
    return ("undecided", False) if contrast.alternative == "superior" else ("met", proven)


def proves_improvement(contrast: Contrast, reading: BoundedValue) -> bool:
    """Return whether a comparison that asks for an improvement has its proof: a one-sided lower bound above 0."""
    return contrast.alternative == "superior" and contrast.margin is None and (reading.lower or 0.0) > 0


def excludes_relevant_regression(contrast: Contrast, reading: BoundedValue) -> bool:
    """Return whether the one-sided bound proves that the candidate is worse by less than the relevant difference."""
    if contrast.relevant is None or contrast.limit is None or reading.lower is None:
        return False
    return reading.lower > -contrast.limit


def proves_equivalence(contrast: Contrast, reading: BoundedValue) -> bool:
    """Return whether both one-sided bounds are within the relevant difference (Schuirmann 1987: two one-sided tests)."""
    if contrast.limit is None or reading.upper is None:
        return False
    return excludes_relevant_regression(contrast, reading) and reading.upper < contrast.limit


def _margin_ruling(contrast: Contrast, margin: float, reading: BoundedValue) -> Decision:
    """Return the state of a claim with a margin, and whether it is proven.

    Non-inferior and superior turn from missed to met at one point, equivalent at two.
    """
    if reading.lower is None or reading.upper is None:
        return "undecided", False
    if contrast.alternative == "equivalent":
        met = reading.lower > -margin and reading.upper < margin
        # A whole interval beyond either margin proves a difference that matters.
        missed = reading.lower > margin or reading.upper < -margin
    else:
        turn = margin if contrast.alternative == "superior" else -margin
        met, missed = reading.lower > turn, reading.upper < turn
    return ("met", True) if met else ("missed", True) if missed else ("undecided", False)
