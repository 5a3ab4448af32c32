"""Of many experiments the terminal shows the worst: nobody reads a hundred tables to find the one that failed."""

from __future__ import annotations

import dataclasses
from collections import Counter

from pytest_crucible.records import Analysis, Run
from pytest_crucible.records.words import State

MOST = 12
"""Experiments that are shown."""
_WORST: tuple[State, ...] = ("missed", "undecided", "met")


def folded(run: Run) -> tuple[Run, str]:
    """The run with its worst experiments alone, worst first, and a sentence about the others; both as they were where all fit.

    An experiment is as bad as its worst verdict, and one without verdicts is not judged, which is better than met.
    """
    if len(run.experiments) <= MOST:
        return run, ""
    states: dict[str, State] = {}
    for one in run.verdicts:
        known = states.get(one.nodeid)
        states[one.nodeid] = one.state if known is None else min(known, one.state, key=_WORST.index)

    def badness(analysis: Analysis) -> int:
        state = states.get(analysis.plan.nodeid)
        return len(_WORST) if state is None else _WORST.index(state)

    ranked = sorted(run.experiments, key=badness)
    rest = Counter(states.get(one.plan.nodeid, "not judged") for one in ranked[MOST:])
    said = ", ".join(f"{rest[state]:,} {state}" for state in (*_WORST, "not judged") if rest[state])
    shown = dataclasses.replace(run, experiments=tuple(ranked[:MOST]))
    return shown, f"{len(ranked) - MOST:,} experiments more: {said}; -v shows all of them"
