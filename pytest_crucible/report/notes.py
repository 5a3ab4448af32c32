"""Notes that affect the interpretation of the numbers, one sentence each, from sections, comparisons and estimates."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.records import Analysis, Estimate, Note, Run, experiment_name
from pytest_crucible.records.rules import RULES_VERSION
from pytest_crucible.report.printable import printable
from pytest_crucible.report.sections import section_notes

# A message of a model or a scorer may be long: its first line identifies it.
LONGEST_DETAIL = 200


def notes(run: Run, *, verbosity: int = 0) -> Iterator[Note]:
    """Yield the notes of a run, each with its experiment's name. With a verbosity above 0: only the additional ones."""
    if run.rules != RULES_VERSION and verbosity == 0:
        yield Note(text=_rules_text(run))
    # The tables have the reasons of verdicts already.
    reasons = {verdict.reason for verdict in run.verdicts}
    for analysis in run.experiments:
        name = experiment_name(analysis.plan.nodeid)
        for note in section_notes(analysis, verbosity=verbosity):
            details = tuple(printable(detail, LONGEST_DETAIL) for detail in note.details)
            yield Note(text=f"{name}: {note.text}", details=details)
        if verbosity == 0:
            texts = dict.fromkeys(
                comparison.note
                for comparison in analysis.comparisons
                if comparison.note and comparison.note not in reasons
            )
            yield from (Note(text=f"{name}: {text}") for text in (*texts, *_inapplicable(analysis)))


def _rules_text(run: Run) -> str:
    """Say which rules gave the verdicts of a run that another build decided."""
    if run.decided_again:
        return f"verdicts are decided again by version {RULES_VERSION} of the rules; the session decided by version {run.rules}"
    return (
        f"verdicts are those of the session, by version {run.rules} of the rules; numbers are computed by version {RULES_VERSION}, "
        f"by which `crucible report {run.id}` decides again"
    )


def _inapplicable(analysis: Analysis) -> Iterator[str]:
    plan = analysis.plan
    for variant in plan.variants:
        for reason, samples in variant.reasons.items():
            yield f"variant {variant.name} does not apply to {samples:,} of {plan.selected:,} samples ({reason})"
    # A variant that does not apply to a sample shows nothing about the arm.
    expected = {facts.name for facts in plan.metrics if facts.of_ensemble or facts.is_conditional}
    expected |= {term.facts.name for term in plan.variant_terms}
    for estimate in analysis.estimates:
        if estimate.inapplicable and estimate.metric not in expected:
            share = f"{estimate.inapplicable:,} of {analysis.plan.selected:,} samples"
            yield f"{estimate.metric} of {estimate.arm} does not apply to {share}{_unconditional(estimate)}"


def _unconditional(estimate: Estimate) -> str:
    if estimate.unconditional is None or not estimate.n:
        return ""
    return f"; with them at the worst value its mean is {estimate.unconditional:.3f}"
