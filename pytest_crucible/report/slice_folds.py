"""Comparisons by slice: worst first, and of many only the few that the terminal prints in full."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.records import Analysis, Comparison, Contrast, Run, experiment_name
from pytest_crucible.records.types import State
from pytest_crucible.report.effect_lines import MOST_SLICES

_WORST: tuple[State, ...] = ("missed", "undecided", "met")
Subjects = dict[str, State]


def worst_slices_first(run: Run) -> Run:
    """Return the run with the slices of each comparison by a field from the worst on; other comparisons keep their places."""
    return replace(run, experiments=tuple(_sort(analysis, _states(run, analysis)) for analysis in run.experiments))


def fold_slices(run: Run) -> tuple[Run, tuple[str, ...]]:
    """Return the run with the worst slices of each comparison by a field, and a sentence about the others of each."""
    run, sentences, folded = worst_slices_first(run), list[str](), set[tuple[str, str]]()
    experiments = []
    for analysis in run.experiments:
        states, hidden = _states(run, analysis), set[str]()
        for members in _claims_by_slice(analysis):
            rest = [_subject(comparison) for comparison in members[MOST_SLICES:]]
            if rest:
                sentences.append(_sentence(analysis, members[0], Counter(states.get(name) for name in rest)))
                hidden |= set(rest)
        shown = tuple(comparison for comparison in analysis.comparisons if _subject(comparison) not in hidden)
        experiments.append(replace(analysis, comparisons=shown))
        folded |= {(analysis.plan.nodeid, name) for name in hidden}
    verdicts = tuple(verdict for verdict in run.verdicts if (verdict.nodeid, verdict.subject) not in folded)
    return replace(run, experiments=tuple(experiments), verdicts=verdicts), tuple(sentences)


def _states(run: Run, analysis: Analysis) -> Subjects:
    return {verdict.subject: verdict.state for verdict in run.verdicts if verdict.nodeid == analysis.plan.nodeid}


def _subject(comparison: Comparison) -> str:
    return comparison.contrast.subject(comparison.candidate)


def _whole(contrast: Contrast) -> Contrast:
    """Return the comparison of all slices that one of a slice belongs to."""
    return replace(contrast, slice="", slice_size=0)


def _claims_by_slice(analysis: Analysis) -> Sequence[Sequence[Comparison]]:
    """Return the comparisons of each claim by slice, in their order."""
    claims: dict[Contrast, list[Comparison]] = {}
    for comparison in analysis.comparisons:
        if comparison.contrast.slice:
            claims.setdefault(_whole(comparison.contrast), []).append(comparison)
    return tuple(claims.values())


def _sort(analysis: Analysis, states: Subjects) -> Analysis:
    def badness(comparison: Comparison) -> tuple[float, float]:
        state = states.get(_subject(comparison))
        # Differences are signed so that positive is better; a slice without one has nothing to act on.
        difference = math.inf if comparison.difference is None else comparison.difference
        return len(_WORST) if state is None else _WORST.index(state), difference

    sorted_slices = {
        _whole(claim[0].contrast): iter(sorted(claim, key=badness)) for claim in _claims_by_slice(analysis)
    }
    comparisons = (
        next(sorted_slices[_whole(comparison.contrast)]) if comparison.contrast.slice else comparison
        for comparison in analysis.comparisons
    )
    return replace(analysis, comparisons=tuple(comparisons))


def _sentence(analysis: Analysis, member: Comparison, states: Counter[State | None]) -> str:
    """Return `test_it: accuracy by topic: v2 vs v1: 67 slices more: 1 undecided, 66 met; -v shows all of them`."""
    counts = ", ".join(f"{states[state]:,} {state or 'not judged'}" for state in (*_WORST, None) if states[state])
    subject = _whole(member.contrast).subject(member.candidate)
    more = f"{states.total():,} slice{'s' if states.total() > 1 else ''} more"
    return f"{experiment_name(analysis.plan.nodeid)}: {subject}: {more}: {counts}; -v shows all of them"
