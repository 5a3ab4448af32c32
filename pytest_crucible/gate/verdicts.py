"""Claims of report sections: adjusts their p-values, and decides a verdict on those that can fail the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from pytest_crucible.gate.decide import (
    AdjustedPValues,
    Decision,
    Settled,
    decide_comparison,
    decide_target,
    excludes_relevant_regression,
    is_complete,
    settle_both,
    settle_scored,
    target_extremes,
    withheld_reason,
)
from pytest_crucible.gate.explain import (
    comparison_reason,
    lost_could_overturn,
    refuted_text,
    suggestion_text,
    target_reason,
)
from pytest_crucible.records import (
    UNEXPLAINED,
    Analysis,
    BoundedValue,
    Claim,
    Comparison,
    Evidence,
    Measure,
    SectionOutcome,
    TargetResult,
    Verdict,
)
from pytest_crucible.stats import holm


def deciding_claims(analysis: Analysis) -> list[tuple[str, Claim]]:
    """Return the claims that can fail the session, each with the name of its section."""
    return [(name, claim) for name, outcome in analysis.sections.items() for claim in outcome.claims if claim.fails]


def adjust_claims(analyses: Sequence[Analysis], deciding: Iterator[float | None]) -> Iterator[Analysis]:
    """Yield each analysis with its claims adjusted.

    `deciding` are the adjusted p-values of the claims that can fail the session, in their order. The others are adjusted
    over the same section of all experiments: so a section's findings cost the candidate's claims nothing.
    """
    own = _own_families(analyses)
    for analysis in analyses:
        sections = {name: _adjust_outcome(outcome, deciding, own[name]) for name, outcome in analysis.sections.items()}
        yield replace(analysis, sections=sections)


def _own_families(analyses: Sequence[Analysis]) -> Mapping[str, Iterator[float | None]]:
    """Return, by section, the adjusted p-values of the claims that decide nothing."""
    p_values: dict[str, list[float | None]] = {}
    for analysis in analyses:
        for name, outcome in analysis.sections.items():
            p_values.setdefault(name, []).extend(claim.p_value for claim in outcome.claims if not claim.fails)
    return {name: iter(holm(family, family_size=len(family))) for name, family in p_values.items()}


def _adjust_outcome(
    outcome: SectionOutcome, deciding: Iterator[float | None], own: Iterator[float | None]
) -> SectionOutcome:
    # Both iterators are consumed in the order in which the p-values were collected.
    claims = tuple(replace(claim, p_adjusted=next(deciding if claim.fails else own)) for claim in outcome.claims)
    return replace(outcome, claims=claims)


def claim_verdicts(analysis: Analysis, withheld: str, *, alpha: float) -> Iterator[Verdict]:
    """Yield a verdict for each claim that can fail the session, and an error in the suite where a section hides its claims.

    `withheld` is why no verdict may be given on this experiment, or empty.
    """
    for name, claim in deciding_claims(analysis):
        proven = not withheld and claim.p_adjusted is not None and claim.p_adjusted <= alpha
        untested = withheld or ("its data allow no test" if claim.p_adjusted is None else "")
        yield Verdict(
            nodeid=analysis.plan.nodeid,
            subject=claim_subject(name, claim),
            kind="claim",
            state="missed" if proven else "undecided" if untested else "met",
            proven=proven,
            reason=(claim.reason or "the claim is proven") if proven else untested or "the claim is not proven",
        )
    for doubt in analysis.doubts:
        yield Verdict(
            nodeid=analysis.plan.nodeid,
            subject=doubt.subject,
            kind="claim",
            state="missed",
            proven=True,
            reason=doubt.reason,
        )
    for name, outcome in analysis.sections.items():
        # A section that has no such claims, or that raised when they were known, changes no verdict.
        if outcome.hides_claims:
            yield Verdict(
                nodeid=analysis.plan.nodeid,
                subject=name,
                kind="claim",
                state="undecided",
                proven=False,
                reason=f"the section {name!r} raised {outcome.error}; its claims, which can fail the session, are unknown",
                suite_error=True,
            )


def claim_subject(section: str, claim: Claim) -> str:
    """Return the subject of a claim's verdict: `refusals: v2 refuses more often than v1`."""
    return f"{section}: {claim.subject}"


def hold_proven(analysis: Analysis, comparison: Comparison, verdict: Verdict) -> Verdict:
    """Return "missed" if an earlier look at the same arms showed it; a rerun does not undo that.

    A later proof that the regression is below the relevant difference is valid, too: both are true of one candidate.
    """
    look = analysis.looks.get(verdict.subject)
    if look is None or look.proven_in is None or verdict.suite_error:
        return verdict
    if verdict.proven and excludes_relevant_regression(comparison.contrast, comparison.evidence.observed):
        return verdict
    past, word = look.proven_in, "proven" if look.proven_in.proven else "missed"
    return replace(
        verdict,
        state="missed",
        proven=past.proven,
        reason=f"it was {word} in run {past.run} of {past.started[:10]}, and stays missed until the adapter changes",
    )


def leave_open(analysis: Analysis, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield an experiment's verdicts: undecided where the samples before the session ended do not settle them.

    A target that no scores of the remaining samples could have met is missed.
    """
    of_training = {result.target.text for result in analysis.targets if result.estimate.is_known}
    for verdict in verdicts:
        is_settled = verdict.suite_error or verdict.subject in of_training
        # Where a target out of reach has ended the session, the scores chose the number of samples: no proof is valid there.
        is_proven_miss = verdict.state == "missed" and verdict.proven and not analysis.out_of_reach
        if not analysis.ended or is_settled or is_proven_miss:
            yield verdict
        elif verdict.subject in analysis.out_of_reach:
            reason = "it could not be met any more, whatever the samples that are left score"
            yield replace(verdict, state="missed", proven=False, reason=reason)
        else:
            yield replace(verdict, state="undecided", proven=False, reason=analysis.ended)


def adjust_p_values(analyses: Sequence[Analysis], *, family_size: int) -> tuple[Analysis, ...]:
    """Return the analyses with p-values adjusted by Holm, in two families.

    One is of the p-values that can fail the session: tests that arms are alike, and the deciding claims. The other is of the
    p-values of bounds, by which sentences call a difference proven.

    `family_size` counts planned comparisons, measured or not: one does not become easier to prove because another one
    was interrupted. Comparisons with a margin have no adjusted p-value: their bounds decide. Claims that decide nothing,
    such as drifts, are a family of their own in each section.
    """
    # Iterators, because the adjusted values come in the order in which the p-values are listed.
    adjusted = iter(holm(_family_p_values(analyses), family_size=family_size))
    proofs = iter(holm(_family_proofs(analyses), family_size=family_size))
    compared = [
        replace(
            analysis,
            comparisons=tuple(
                replace(item, p_adjusted=next(adjusted), proof_adjusted=next(proofs)) for item in analysis.comparisons
            ),
        )
        for analysis in analyses
    ]
    return tuple(adjust_claims(compared, adjusted))


def decide_verdicts(
    analyses: Sequence[Analysis], *, alpha: float, strict: bool, family_size: int
) -> tuple[Verdict, ...]:
    """Return a verdict for each target, each deciding comparison and each deciding claim. `analyses` are adjusted."""
    families = _families_of(analyses, alpha, family_size)
    verdicts: list[Verdict] = []
    for analysis in analyses:
        # Until the last stage only a proof decides: the estimate of the whole is not known yet.
        of_analysis = [
            _known_verdict(analysis, result, strict) if result.estimate.is_known
            else _target_verdict(analysis, result, strict or bool(analysis.ended))
            for result in analysis.targets
        ]  # fmt: skip
        of_analysis += [
            _unscored_verdict(analysis, metric, subject) for metric, subject in _unscored_subjects(analysis)
        ]
        deciding = (item for item in analysis.comparisons if item.contrast.decides)
        of_analysis += [hold_proven(analysis, item, _comparison_verdict(analysis, item, families)) for item in deciding]
        of_analysis += claim_verdicts(analysis, withheld_reason(analysis), alpha=alpha)
        verdicts += leave_open(analysis, _add_remarks(analysis, of_analysis))
    return tuple(verdicts)


def decide_with_others(
    analyses: Sequence[Analysis], analysis: Analysis, *, alpha: float, strict: bool, family_size: int
) -> Callable[[TargetResult | Comparison], Decision]:
    """Return what decides a target or a comparison of an analysis with other evidence, and all other p-values as they are."""
    families = _families_of(analyses, alpha, family_size)

    def decide(result: TargetResult | Comparison) -> Decision:
        if isinstance(result, TargetResult):
            verdict = _target_verdict(analysis, result, strict or bool(analysis.ended))
        else:
            verdict = hold_proven(analysis, result, _comparison_verdict(analysis, result, families))
        [settled] = leave_open(analysis, [verdict])
        return settled.state, settled.proven

    return decide


def _families_of(analyses: Sequence[Analysis], alpha: float, family_size: int) -> _Families:
    return _Families(
        _Family(_family_p_values(analyses), family_size), _Family(_family_proofs(analyses), family_size), alpha
    )


def _add_remarks(analysis: Analysis, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts with what sections say about them."""
    remarks = [outcome.remarks for outcome in analysis.sections.values() if outcome.remarks]
    for verdict in verdicts:
        sentences = [of_section[verdict.subject] for of_section in remarks if verdict.subject in of_section]
        yield replace(verdict, reason="; ".join((verdict.reason, *sentences))) if sentences else verdict


def _family_p_values(analyses: Sequence[Analysis]) -> list[float | None]:
    """Return the session's Holm family: first all comparisons, then all deciding claims."""
    comparisons = [
        # A comparison outside the family keeps its place as None, so that the order stays that of the comparisons.
        item.p_value if item.contrast.shares_alpha else None
        for analysis in analyses
        for item in analysis.comparisons
    ]
    return comparisons + [claim.p_value for analysis in analyses for _, claim in deciding_claims(analysis)]


def _family_proofs(analyses: Sequence[Analysis]) -> list[float | None]:
    """Return the p-values of the bounds of all comparisons that share alpha, in the order of the comparisons."""
    return [
        item.proof_p if item.contrast.shares_alpha else None for analysis in analyses for item in analysis.comparisons
    ]


def _impossible_verdict(analysis: Analysis, subject: str, kind: Literal["target", "comparison"], error: str) -> Verdict:
    """Return the verdict on a claim that the metric's values have shown to be impossible: an error in the suite."""
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=subject,
        kind=kind,
        state="undecided",
        proven=False,
        reason=error,
        suite_error=True,
    )


def _target_verdict(analysis: Analysis, result: TargetResult, strict: bool) -> Verdict:
    if result.suite_error:
        return _impossible_verdict(analysis, result.target.text, "target", result.suite_error)

    def rule(reading: BoundedValue) -> Decision:
        return decide_target(result.target, reading, strict=strict)

    def settle(evidence: Evidence, lost: int) -> Settled:
        return settle_scored(analysis, evidence.observed, target_extremes(result.target, evidence), lost, rule)

    state, proven, caveat = settle_both(result, result.estimate.n, result.estimate.lost, settle)
    if not proven and not caveat and rule(result.evidence.observed)[1]:
        caveat = lost_could_overturn(result.estimate.lost)
    nowhere = _applies_nowhere(analysis, result.estimate.metric) if not result.estimate.n else ""
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=result.target.text,
        kind="target",
        state=state,
        proven=proven,
        reason=nowhere
        or _failure(analysis, result.target.metric, result.estimate.n)
        or caveat
        or target_reason(result, state, proven),
        suite_error=not result.estimate.n and is_complete(analysis) and not nowhere,
    )


def _known_verdict(analysis: Analysis, result: TargetResult, strict: bool) -> Verdict:
    """Return the verdict on a number known before sampling, which selections, interruptions and lost samples do not concern.

    Without an interval over several sources, such as trainings, it decides also where proof is required.
    """
    reading = result.evidence.observed
    is_estimated = reading.lower is not None
    target = result.target if is_estimated else replace(result.target, decide="point")
    state, proven = decide_target(target, reading, strict=strict and is_estimated)
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=result.target.text,
        kind="target",
        state=state,
        proven=proven,
        # Elsewhere n counts samples.
        reason=f"{target_reason(result, state, proven)}; n counts {result.estimate.statistic}s"
        if is_estimated
        else result.note,
    )


def _applies_nowhere(analysis: Analysis, metric: str) -> str:
    """Return why a metric applies to no sample. Without a reason a `return` may be missing, and the result is empty.

    A metric that failed wherever it applies applies somewhere.
    """
    reason = analysis.inapplicable.get(metric, UNEXPLAINED)
    return "" if reason == UNEXPLAINED or metric in analysis.failed_metrics else f"it applies to no sample: {reason}"


def _failure(analysis: Analysis, metric: str, n: int) -> str:
    """Return the error of a metric that failed on every sample; empty if `n` samples have a value."""
    return "" if n else analysis.failed_metrics.get(metric, "")


def _unscored_subjects(analysis: Analysis) -> list[tuple[str, str]]:
    """Return the targets and comparisons on metrics without scores."""
    judged = {result.target.text for result in analysis.targets}
    compared = {measure.contrast for measure in analysis.comparisons}
    plan = analysis.plan
    unscored: list[tuple[Measure, str]] = [
        (measure, measure.text) for measure in plan.targets if measure.text not in judged
    ]
    unscored += [
        (measure, measure.subject(plan.candidate.name))
        for measure in plan.contrasts
        if measure.decides and measure not in compared
    ]
    scored = analysis.kinds
    return [
        (next((name for name in measure.metrics if name not in scored), measure.metric), subject)
        for measure, subject in unscored
    ]


def _unscored_verdict(analysis: Analysis, metric: str, subject: str) -> Verdict:
    """Return the verdict on a metric without scores: an error in the suite, because a misspelt name must not pass."""
    plan = analysis.plan
    scored = ", ".join(analysis.kinds) or "nothing"
    not_run = plan.not_run.get(metric, "")
    return Verdict(
        nodeid=plan.nodeid,
        subject=subject,
        kind="target" if any(target.text == subject for target in plan.targets) else "comparison",
        state="undecided",
        proven=False,
        reason=not_run
        or (withheld_reason(analysis) if plan.withheld else analysis.failed_metrics.get(metric))
        or f"no sample has a number for {metric!r} (scored: {scored})",
        suite_error=is_complete(analysis) and not not_run,
    )


class _Family:
    """A Holm family of the session, which adjusts one p-value after replacing it by another."""

    def __init__(self, p_values: list[float | None], family_size: int) -> None:
        self._p_values = p_values
        self._family_size = family_size

    def adjust(self, observed: float | None, instead: float | None) -> float | None:
        if instead is None:
            return None
        family = [instead, *self._without(observed)]
        # Holm refuses a family that is smaller than the number of its p-values.
        return holm(family, family_size=max(self._family_size, sum(p is not None for p in family)))[0]

    def _without(self, observed: float | None) -> list[float | None]:
        others = list(self._p_values)
        if observed in others:
            others.remove(observed)
        return others


class _Families(NamedTuple):
    """The session's two families, and the alpha that each of them shares."""

    alike: _Family
    proof: _Family
    alpha: float

    def adjust(self, comparison: Comparison, reading: BoundedValue) -> AdjustedPValues:
        """Return the adjusted p-values of a comparison with this reading in place of what was observed."""
        return AdjustedPValues(
            alike=self.alike.adjust(comparison.p_value, reading.p_value),
            proof=self.proof.adjust(comparison.proof_p, reading.proof_p),
            smallest=self.alike.adjust(comparison.p_value, reading.smallest_p),
        )


def _comparison_verdict(analysis: Analysis, comparison: Comparison, families: _Families) -> Verdict:
    subject = comparison.contrast.subject(comparison.candidate)
    if comparison.suite_error:
        return _impossible_verdict(analysis, subject, "comparison", comparison.suite_error)

    def rule(reading: BoundedValue) -> Decision:
        adjusted = families.adjust(comparison, reading)
        return decide_comparison(comparison.contrast, reading, adjusted, alpha=families.alpha)

    def settle(evidence: Evidence, lost: int) -> Settled:
        return settle_scored(analysis, evidence.observed, [evidence.worst, evidence.best], lost, rule)

    state, proven, caveat = settle_both(comparison, comparison.pairs, comparison.lost, settle)
    if comparison.beyond_reach is not None:
        refuted = refuted_text(comparison.beyond_reach, comparison.contrast.metric)
        state, proven, caveat = "undecided", False, withheld_reason(analysis) or refuted
    nowhere = _applies_nowhere(analysis, comparison.contrast.metric) if not comparison.pairs else ""
    return Verdict(
        nodeid=analysis.plan.nodeid,
        subject=subject,
        kind="comparison",
        state=state,
        proven=proven,
        reason=nowhere
        or _failure(analysis, comparison.contrast.metric, comparison.pairs)
        or caveat
        or comparison_reason(comparison, state, proven, families.alpha) + suggestion_text(comparison, state, proven),
        suite_error=not comparison.pairs
        and is_complete(analysis)
        and not nowhere
        and not _is_empty_slice(analysis, comparison),
    )


def _is_empty_slice(analysis: Analysis, comparison: Comparison) -> bool:
    """Return whether only this slice has no pairs: its samples were lost, or the metric applies to none of them."""
    contrast = comparison.contrast
    return bool(contrast.slice) and any(
        other.pairs for other in analysis.comparisons if other.contrast.metric == contrast.metric
    )
