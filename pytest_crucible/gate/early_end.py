"""Verdicts of a session that ended before its last stage: proven misses remain, and everything else is undecided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_crucible.records import Analysis, Verdict


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
