"""Decisions on one bounded value, and on a claim unless its selection, an interruption or lost samples forbid it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pytest_crucible.records import (
    Analysis,
    BoundedValue,
    Comparison,
    Contrast,
    Evidence,
    ReducedEvidence,
    State,
    Target,
    TargetResult,
)
from pytest_crucible.stats.number_format import quantity

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


class Settled(NamedTuple):
    """A decision on a target or a comparison, after lost samples and selections were weighed."""

    state: State
    proven: bool
    caveat: str = ""
    """Why it differs from the verdict on the scored samples alone; empty if it does not."""


def decide_without_excluded(whole: Settled, n: int, rest: Settled, reduced: ReducedEvidence) -> Settled:
    """Return the decision that does not depend on excluded samples.

    `whole` was decided on all `n` samples, `rest` by the same rule on the reduced evidence. Where the two states differ, the
    verdict is undecided; where only the proof is lost, it is no longer proven. Both reasons name the number of excluded samples.
    """
    without = f"without the {reduced.excluded:,} that {reduced.reason}"
    if whole.state == "undecided":
        return whole
    if rest.state != whole.state:
        return Settled("undecided", False, f"{whole.state} on {n:,} samples, {rest.state} {without}")
    if whole.proven and not rest.proven:
        return Settled(whole.state, False, f"proven on {n:,} samples, unproven {without}")
    return whole


def settle_both(
    result: TargetResult | Comparison, n: int, lost: int, settle: Callable[[Evidence, int], Settled]
) -> Settled:
    """Decide on all samples and, where the plan excludes some, again without these."""
    whole, reduced = settle(result.evidence, lost), result.reduced
    if reduced is None:
        return whole
    return decide_without_excluded(whole, n, settle(reduced.evidence, reduced.lost), reduced)


def settle_scored(
    analysis: Analysis,
    observed: BoundedValue,
    possible: Sequence[BoundedValue],
    lost: int,
    rule: Callable[[BoundedValue], Decision],
) -> Settled:
    """Decide on the observed samples, unless the selection, an interruption or the lost samples forbid it."""
    withheld = withheld_reason(analysis)
    if withheld:
        return Settled("undecided", False, withheld)
    state, proven = rule(observed)
    if not lost or observed.value is None:
        return Settled(state, proven)
    extremes = [rule(reading) for reading in possible]
    # The lost samples may have any value between the extremes, so one extreme that decides otherwise is enough.
    if any(other != state for other, _ in extremes):
        if all(other == "undecided" for other, _ in extremes):
            reason = f"{state} on the scored samples; {lost_samples_text(lost)} could leave it open"
            return Settled("undecided", False, reason)
        others = " or ".join(sorted({other for other, _ in extremes} - {state}))
        reason = f"{state} on the scored samples; {lost_samples_text(lost)} could make it {others}"
        return Settled("undecided", False, reason)
    return Settled(state, proven and all(sure for _, sure in extremes))


def lost_samples_text(lost: int) -> str:
    return f"the {quantity(lost, 'lost sample')}"


def target_extremes(target: Target, evidence: Evidence) -> list[BoundedValue]:
    """Return the worst and the best value that lost samples allow, and the value of an equality if it lies between them."""
    worst, best = evidence.worst, evidence.best
    if target.relation != "==" or worst.value is None or best.value is None:
        return [worst, best]
    # Neither extreme equals the required value, but some values of the lost samples between them would.
    between = min(worst.value, best.value) < target.value < max(worst.value, best.value)
    return [worst, best, *([BoundedValue(value=target.value)] if between else [])]


def withheld_reason(analysis: Analysis) -> str:
    """Return why no verdict may be given: a part of the samples was selected, or sampling was interrupted."""
    plan = analysis.plan
    if plan.withheld:
        return f"nothing was sent, because {plan.withheld}"
    if plan.selected < plan.planned:
        return f"only {plan.selected} of {plan.planned} samples were selected"
    if analysis.finished:
        return next((doubt.reason for doubt in analysis.doubts), "")
    # A wrong key or model: a resumed run would only be refused again.
    if analysis.unanswered:
        return f"sampling stopped before the first result of {' and '.join(analysis.unanswered)}"
    if plan.is_imported:
        return "the run of the file was cut short"
    return "sampling was interrupted; continue with --crucible-resume"


def is_complete(analysis: Analysis) -> bool:
    """Return whether every sample was run. A metric without a score is then an error in the suite, which must not pass."""
    return analysis.finished and analysis.plan.selected == analysis.plan.planned
