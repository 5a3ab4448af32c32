"""Keep a verdict that an earlier session proved."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.gate.decide import excludes_relevant_regression
from pytest_crucible.records import Analysis, Comparison, Verdict


def hold_proven(analysis: Analysis, comparison: Comparison, verdict: Verdict) -> Verdict:
    """Return "missed" if an earlier look at the same arms showed it; a rerun does not undo that.

    A later proof that the regression is below the relevant difference is valid, too: both are true of one candidate.
    """
    look = analysis.looks.get(verdict.subject)
    if look is None or look.proven_in is None or verdict.suite_error:
        return verdict
    if verdict.proven and excludes_relevant_regression(comparison.contrast, comparison.evidence.observed):
        return verdict
    past, shown = look.proven_in, "proven" if look.proven_in.proven else "missed"
    return replace(
        verdict,
        state="missed",
        proven=past.proven,
        reason=f"it was {shown} in run {past.run} of {past.started[:10]}, and stays missed until the adapter changes",
    )
