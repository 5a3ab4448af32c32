"""From analyses to verdicts: met, missed or undecided. No printing, no pytest, no data: only what was computed from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_crucible.records import (
    Analysis,
    Comparison,
    Contrast,
    Evidence,
    Reading,
    State,
    Target,
    TargetResult,
    Verdict,
)
from pytest_crucible.stats import holm

Ruling = tuple[State, bool]
"""State, and whether the data prove it."""
_ROUNDING = 1e-12
"""19 of 20 must meet 0.95 also where the mean comes out a last digit short."""


def adjust(analyses: Sequence[Analysis], *, questions: int) -> tuple[Analysis, ...]:
    """Give every comparison its p-value by Holm over all comparisons of the session.

    `questions` counts those that were asked, measured or not: a question does not become easier to answer because
    another one was interrupted.
    """
    adjusted = iter(holm([one.p_value for analysis in analyses for one in analysis.comparisons], family_size=questions))
    return tuple(
        replace(analysis, comparisons=tuple(replace(one, p_adjusted=next(adjusted)) for one in analysis.comparisons))
        for analysis in analyses
    )


def judge(analyses: Sequence[Analysis], *, alpha: float, strict: bool, questions: int) -> tuple[Verdict, ...]:
    """A verdict for each target and each comparison. `analyses` are adjusted."""
    family = [one.p_value for analysis in analyses for one in analysis.comparisons]
    verdicts: list[Verdict] = []
    for analysis in analyses:
        verdicts += [_target_verdict(analysis, result, strict) for result in analysis.targets]
        verdicts += [_unscored(analysis, metric, subject) for metric, subject in _unscored_subjects(analysis)]
        for one in analysis.comparisons:
            verdicts.append(_comparison_verdict(analysis, one, _Family(family, questions, alpha)))
    return tuple(verdicts)


# -- targets ------------------------------------------------------------------------------------------------------


def target_ruling(target: Target, reading: Reading, *, strict: bool) -> Ruling:
    """What one reading says of a target: by the estimate, or (decide="bound", or strict) only by proof."""
    if reading.value is None:
        return "undecided", False
    proven_met = _surely(target, reading)
    proven_missed = _surely_not(target, reading)
    if strict or target.decide == "bound":
        state: State = "met" if proven_met else "missed" if proven_missed else "undecided"
        return state, proven_met or proven_missed
    met = _holds(target.relation, reading.value, target.value)
    return ("met", proven_met) if met else ("missed", proven_missed)


def _holds(relation: str, value: float, limit: float) -> bool:
    slack = _ROUNDING * max(1.0, abs(limit))
    relations: dict[str, Callable[[], bool]] = {
        ">=": lambda: value >= limit - slack,
        "<=": lambda: value <= limit + slack,
        ">": lambda: value > limit + slack,
        "<": lambda: value < limit - slack,
        "==": lambda: abs(value - limit) <= slack,
    }
    return relations[relation]()


def _surely(target: Target, reading: Reading) -> bool:
    """The one-sided bound itself satisfies the target. An equality can never be proven, only refuted."""
    bound = {">": reading.lower, "<": reading.upper}.get(target.relation[0])
    return bound is not None and _holds(target.relation, bound, target.value)


def _surely_not(target: Target, reading: Reading) -> bool:
    if target.relation == "==":
        below = reading.upper is not None and reading.upper < target.value
        return below or (reading.lower is not None and reading.lower > target.value)
    bound = {">": reading.upper, "<": reading.lower}[target.relation[0]]
    return bound is not None and not _holds(target.relation, bound, target.value)


def _target_verdict(analysis: Analysis, result: TargetResult, strict: bool) -> Verdict:
    def rule(reading: Reading) -> Ruling:
        return target_ruling(result.target, reading, strict=strict)

    observed, lost = result.evidence.observed, result.estimate.lost
    state, proven, caveat = _settle(analysis, observed, _possible(result.target, result.evidence), lost, rule)
    if not proven and not caveat and rule(observed)[1]:
        caveat = f"proven on what was observed, but not whatever the {lost} lost samples are"
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=result.target.text,
        kind="target",
        state=state,
        proven=proven,
        reason=caveat or _target_reason(result, state, proven),
    )


def _possible(target: Target, evidence: Evidence) -> list[Reading]:
    """The extremes; and where they lie on both sides of a value that is asked for, that value."""
    worst, best = evidence.worst, evidence.best
    if target.relation != "==" or worst.value is None or best.value is None:
        return [worst, best]
    between = min(worst.value, best.value) < target.value < max(worst.value, best.value)
    return [worst, best, *([Reading(value=target.value, lower=None, upper=None)] if between else [])]


def _target_reason(result: TargetResult, state: State, proven: bool) -> str:
    if result.estimate.value is None:
        return "no sample was scored"
    if result.target.relation == "==" and state == "met" and result.target.value == 0:
        upper = result.evidence.observed.upper
        rate = "" if upper is None else f"; the rate may be up to {upper / result.estimate.n:.3g}"
        return f"none in these n={result.estimate.n}{rate}"
    if proven:
        return _proof(result, state)
    needed = (
        f"proof needs about n={result.needed:,} at this estimate"
        if result.needed
        else "no n would prove it at this estimate"
    )
    return f"unproven; {needed}" if state != "undecided" else f"not proven either way; {needed}"


def _proof(result: TargetResult, state: State) -> str:
    """Which bound settles it: the one on the target's side when it is missed, the one away from it when it is met."""
    reading, above = result.evidence.observed, result.target.relation.startswith(">")
    if result.target.relation == "==":
        return "the one-sided bounds rule it out"
    bound = reading.lower if above == (state == "met") else reading.upper
    return f"the one-sided bound {bound:.3g} {'proves it' if state == 'met' else 'rules it out'}"


def _unscored_subjects(analysis: Analysis) -> list[tuple[str, str]]:
    """Targets and comparisons on metrics that nothing scored."""
    judged = {result.target.text for result in analysis.targets}
    compared = {one.contrast for one in analysis.comparisons}
    plan = analysis.plan
    return [(one.metric, one.text) for one in plan.targets if one.text not in judged] + [
        (one.metric, one.subject(plan.candidate.name)) for one in plan.contrasts if one not in compared
    ]


def _unscored(analysis: Analysis, metric: str, subject: str) -> Verdict:
    """A name that nothing scored is a mistake of the suite: passing over it would make a typing error a green build."""
    plan = analysis.plan
    scored = ", ".join(analysis.kinds) or "nothing"
    complete = analysis.finished and plan.selected == plan.planned
    return Verdict(
        nodeid=plan.nodeid,
        subject=subject,
        kind="target" if any(one.text == subject for one in plan.targets) else "comparison",
        state="undecided",
        proven=False,
        reason=f"no sample has a number for {metric!r} (scored: {scored})",
        mistake=complete,
    )


# -- comparisons --------------------------------------------------------------------------------------------------


class _Family:
    """The p-values of the session, and what one of them becomes when it is another one."""

    def __init__(self, p_values: list[float | None], questions: int, alpha: float) -> None:
        self._p_values = p_values
        self._questions = questions
        self.alpha = alpha

    def adjusted(self, observed: float | None, instead: float | None) -> float | None:
        if instead is None:
            return None
        family = [instead, *self._without(observed)]
        return holm(family, family_size=max(self._questions, sum(p is not None for p in family)))[0]

    def _without(self, observed: float | None) -> list[float | None]:
        others = list(self._p_values)
        if observed in others:
            others.remove(observed)
        return others


def comparison_ruling(contrast: Contrast, reading: Reading, p_adjusted: float | None, *, alpha: float) -> Ruling:
    """What one reading says of a comparison.

    With a margin the one-sided bounds decide. Without one a claim needs an adjusted p of at most alpha.
    """
    if reading.value is None:
        return "undecided", False
    if contrast.margin is not None:
        return _margin_ruling(contrast, contrast.margin, reading)
    if p_adjusted is None:
        return "undecided", False
    proven = p_adjusted <= alpha and reading.value != 0
    if proven:
        return ("met" if reading.value > 0 else "missed"), True
    return ("undecided" if contrast.alternative == "superior" else "met"), False


def _margin_ruling(contrast: Contrast, margin: float, reading: Reading) -> Ruling:
    """Non-inferior and superior turn at one point, equivalent at two."""
    if reading.lower is None or reading.upper is None:
        return "undecided", False
    if contrast.alternative == "equivalent":
        met = reading.lower > -margin and reading.upper < margin
        missed = reading.lower > margin or reading.upper < -margin
    else:
        turn = margin if contrast.alternative == "superior" else -margin
        met, missed = reading.lower > turn, reading.upper < turn
    return ("met", True) if met else ("missed", True) if missed else ("undecided", False)


def _comparison_verdict(analysis: Analysis, one: Comparison, family: _Family) -> Verdict:
    def rule(reading: Reading) -> Ruling:
        adjusted = family.adjusted(one.p_value, reading.p_value)
        return comparison_ruling(one.contrast, reading, adjusted, alpha=family.alpha)

    evidence = one.evidence
    state, proven, caveat = _settle(analysis, evidence.observed, [evidence.worst, evidence.best], one.lost, rule)
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=one.contrast.subject(one.candidate),
        kind="comparison",
        state=state,
        proven=proven,
        reason=caveat or _comparison_reason(one, state, proven, family.alpha),
    )


def _comparison_reason(one: Comparison, state: State, proven: bool, alpha: float) -> str:
    if one.difference is None or one.p_value is None:
        return one.note or "too few pairs"
    if one.contrast.margin is not None:
        return _margin_reason(one, state)
    claim = "an improvement" if one.difference > 0 else "a regression"
    if proven:
        return f"{claim} is proven"
    if one.p_adjusted is not None and one.p_adjusted <= alpha:
        return f"{claim} is proven on what was observed, but not whatever the {one.lost} lost samples are"
    sees = "" if one.detectable is None else f"; n={one.pairs:,} shows differences from {one.detectable:.3g}"
    needed = "" if one.needed is None else f"; about n={one.needed:,} would decide at this difference"
    if state == "undecided":
        return f"no improvement is proven{needed}"
    return f"no difference is proven{sees}{needed}"


def _margin_reason(one: Comparison, state: State) -> str:
    observed, margin = one.evidence.observed, one.contrast.margin or 0.0
    if observed.lower is None or observed.upper is None:
        return one.note or "no bound can be had from these data"
    bounds = f"one-sided bounds {observed.lower:+.3g} and {observed.upper:+.3g}, margin {margin:g}"
    if state != "undecided":
        return bounds
    needed = "" if one.needed is None else f"; about n={one.needed:,} would decide at this difference"
    return f"{bounds}{needed}"


# -- both ---------------------------------------------------------------------------------------------------------


def _settle(
    analysis: Analysis, observed: Reading, possible: Sequence[Reading], lost: int, rule: Callable[[Reading], Ruling]
) -> tuple[State, bool, str]:
    """The ruling on what was observed, unless the selection, an interruption or the lost samples forbid one."""
    plan = analysis.plan
    if plan.selected < plan.planned:
        return "undecided", False, f"only {plan.selected} of {plan.planned} samples were selected"
    if not analysis.finished:
        return "undecided", False, "interrupted; --crucible-resume goes on"
    state, proven = rule(observed)
    if not lost or observed.value is None:
        return state, proven, ""
    extremes = [rule(reading) for reading in possible]
    if any(other != state for other, _ in extremes):
        others = " or ".join(sorted({other for other, _ in extremes} - {state}))
        return "undecided", False, f"{state} on what was observed, but {lost} lost samples could make it {others}"
    return state, proven and all(sure for _, sure in extremes), ""
