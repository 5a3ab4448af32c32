"""From analyses to verdicts: p-values adjusted over the session, lost samples weighed, partial selections refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_crucible.gate.reasons import comparison_reason, target_reason
from pytest_crucible.gate.rulings import Ruling, comparison_ruling, target_ruling
from pytest_crucible.records import (
    UNEXPLAINED,
    Analysis,
    Comparison,
    Evidence,
    Reading,
    State,
    Target,
    TargetResult,
    Verdict,
)
from pytest_crucible.stats import holm


def adjust(analyses: Sequence[Analysis], *, questions: int) -> tuple[Analysis, ...]:
    """Give every comparison its p-value by Holm over all comparisons of the session, and every drift over all drifts.

    `questions` counts those that were asked, measured or not: a question does not become easier to answer because
    another one was interrupted. Drifts are a family of their own: what they say is said of servers, and costs the
    candidate's claims nothing.
    """
    adjusted = iter(holm([one.p_value for analysis in analyses for one in analysis.comparisons], family_size=questions))
    drifts = [one.comparison.evidence.weakest_p_value for analysis in analyses for one in analysis.drifts]
    drifted = iter(holm(drifts, family_size=len(drifts)))
    return tuple(
        replace(
            analysis,
            comparisons=tuple(replace(one, p_adjusted=next(adjusted)) for one in analysis.comparisons),
            drifts=tuple(
                replace(one, comparison=replace(one.comparison, p_adjusted=next(drifted))) for one in analysis.drifts
            ),
        )
        for analysis in analyses
    )


def judge(analyses: Sequence[Analysis], *, alpha: float, strict: bool, questions: int) -> tuple[Verdict, ...]:
    """A verdict for each target and each comparison. `analyses` are adjusted."""
    family = [one.p_value for analysis in analyses for one in analysis.comparisons]
    verdicts: list[Verdict] = []
    for analysis in analyses:
        verdicts += [
            _training_verdict(analysis, result) if result.estimate.statistic == "training"
            else _target_verdict(analysis, result, strict)
            for result in analysis.targets
        ]  # fmt: skip
        verdicts += [_unscored(analysis, metric, subject) for metric, subject in _unscored_subjects(analysis)]
        for one in analysis.comparisons:
            verdicts.append(_comparison_verdict(analysis, one, _Family(family, questions, alpha)))
    return tuple(verdicts)


def _target_verdict(analysis: Analysis, result: TargetResult, strict: bool) -> Verdict:
    def rule(reading: Reading) -> Ruling:
        return target_ruling(result.target, reading, strict=strict)

    observed, lost = result.evidence.observed, result.estimate.lost
    state, proven, caveat = _settle(analysis, observed, _possible(result.target, result.evidence), lost, rule)
    if not proven and not caveat and rule(observed)[1]:
        caveat = f"proven on what was observed, but not whatever the {lost:,} lost are"
    nowhere = _applies_nowhere(analysis, result.estimate.metric) if not result.estimate.n else ""
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=result.target.text,
        kind="target",
        state=state,
        proven=proven,
        reason=nowhere or caveat or target_reason(result, state, proven),
        mistake=not result.estimate.n and _complete(analysis) and not nowhere,
    )


def _training_verdict(analysis: Analysis, result: TargetResult) -> Verdict:
    """A number of the candidate's training is known, not estimated: it decides also where proof is asked for.

    What was selected, cut short or lost does not touch it.
    """
    state, proven = target_ruling(replace(result.target, decide="point"), result.evidence.observed, strict=False)
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=result.target.text,
        kind="target",
        state=state,
        proven=proven,
        reason=result.note,
    )


def _applies_nowhere(analysis: Analysis, metric: str) -> str:
    """With a reason given, to apply to no sample is an answer; without one a `return` may be missing."""
    reason = analysis.inapplicable.get(metric, UNEXPLAINED)
    return "" if reason == UNEXPLAINED else f"it applies to no sample: {reason}"


def _possible(target: Target, evidence: Evidence) -> list[Reading]:
    """The extremes; and where they lie on both sides of a value that is asked for, that value."""
    worst, best = evidence.worst, evidence.best
    if target.relation != "==" or worst.value is None or best.value is None:
        return [worst, best]
    between = min(worst.value, best.value) < target.value < max(worst.value, best.value)
    return [worst, best, *([Reading(value=target.value, lower=None, upper=None)] if between else [])]


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
    return Verdict(
        nodeid=plan.nodeid,
        subject=subject,
        kind="target" if any(one.text == subject for one in plan.targets) else "comparison",
        state="undecided",
        proven=False,
        reason=f"no sample has a number for {metric!r} (scored: {scored})",
        mistake=_complete(analysis),
    )


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


def _comparison_verdict(analysis: Analysis, one: Comparison, family: _Family) -> Verdict:
    def rule(reading: Reading) -> Ruling:
        adjusted = family.adjusted(one.p_value, reading.p_value)
        return comparison_ruling(one.contrast, reading, adjusted, alpha=family.alpha)

    evidence = one.evidence
    state, proven, caveat = _settle(analysis, evidence.observed, [evidence.worst, evidence.best], one.lost, rule)
    nowhere = _applies_nowhere(analysis, one.contrast.metric) if not one.pairs else ""
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=one.contrast.subject(one.candidate),
        kind="comparison",
        state=state,
        proven=proven,
        reason=nowhere or caveat or comparison_reason(one, state, proven, family.alpha),
        mistake=not one.pairs and _complete(analysis) and not nowhere,
    )


def _complete(analysis: Analysis) -> bool:
    """Everything was asked. What is without a single score then is no bad luck but a mistake: it must not pass."""
    return analysis.finished and analysis.plan.selected == analysis.plan.planned


def _settle(
    analysis: Analysis, observed: Reading, possible: Sequence[Reading], lost: int, rule: Callable[[Reading], Ruling]
) -> tuple[State, bool, str]:
    """The ruling on what was observed, unless the selection, an interruption or the lost samples forbid one."""
    plan = analysis.plan
    if plan.selected < plan.planned:
        return "undecided", False, f"only {plan.selected} of {plan.planned} samples were selected"
    if not analysis.finished:
        return "undecided", False, "sampling was cut short; --crucible-resume goes on"
    state, proven = rule(observed)
    if not lost or observed.value is None:
        return state, proven, ""
    extremes = [rule(reading) for reading in possible]
    if any(other != state for other, _ in extremes):
        if all(other == "undecided" for other, _ in extremes):
            return "undecided", False, f"{state} on what was observed; the {lost:,} lost leave it open"
        others = " or ".join(sorted({other for other, _ in extremes} - {state}))
        return "undecided", False, f"{state} on what was observed; the {lost:,} lost could make it {others}"
    return state, proven and all(sure for _, sure in extremes), ""
