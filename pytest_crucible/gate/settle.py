"""Decides a claim on the scored samples, unless the selection, an interruption or the lost samples forbid it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_crucible.gate.decide import Decision
from pytest_crucible.gate.exclusions import Settled, decide_without_excluded
from pytest_crucible.gate.phrases import lost_samples_text
from pytest_crucible.records import Analysis, BoundedValue, Comparison, Evidence, Target, TargetResult


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


def target_extremes(target: Target, evidence: Evidence) -> list[BoundedValue]:
    """Return the worst and the best value that lost samples allow, and the value of an equality if it lies between them."""
    worst, best = evidence.worst, evidence.best
    if target.relation != "==" or worst.value is None or best.value is None:
        return [worst, best]
    # Neither extreme equals the required value, but some values of the lost samples between them would.
    between = min(worst.value, best.value) < target.value < max(worst.value, best.value)
    return [worst, best, *([BoundedValue(value=target.value, lower=None, upper=None)] if between else [])]


def withheld_reason(analysis: Analysis) -> str:
    """Return why no verdict may be given: a part of the samples was selected, or sampling was interrupted."""
    plan = analysis.plan
    if plan.withheld:
        return f"nothing was sent, because {plan.withheld}"
    if plan.selected < plan.planned:
        return f"only {plan.selected} of {plan.planned} samples were selected"
    if analysis.finished:
        return ""
    # A wrong key or model: a resumed run would only be refused again.
    if analysis.unanswered:
        return f"sampling stopped before the first result of {' and '.join(analysis.unanswered)}"
    return "sampling was interrupted; continue with --crucible-resume"


def is_complete(analysis: Analysis) -> bool:
    """Return whether every sample was run. A metric without a score is then an error in the suite, which must not pass."""
    return analysis.finished and analysis.plan.selected == analysis.plan.planned
