"""Of many experiments the worst stand first, and the terminal shows them alone: nobody reads a hundred tables to find one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from pytest_crucible.records import Analysis, Run
from pytest_crucible.records.words import State

MOST = 12
"""Experiments that are shown, and that stay in the order of their suite."""
_WORST: tuple[State, ...] = ("missed", "undecided", "met")


def worst_states(run: Run) -> Mapping[str, State]:
    """How bad each experiment is, by its nodeid: as its worst verdict. One without verdicts has none."""
    states: dict[str, State] = {}
    for one in run.verdicts:
        known = states.get(one.nodeid)
        states[one.nodeid] = one.state if known is None else min(known, one.state, key=_WORST.index)
    return states


def worst_first(run: Run) -> Run:
    """The run with its experiments from the worst on, where they are many. Not to be judged is better than to be met."""
    if len(run.experiments) <= MOST:
        return run
    states = worst_states(run)

    def badness(analysis: Analysis) -> int:
        state = states.get(analysis.plan.nodeid)
        return len(_WORST) if state is None else _WORST.index(state)

    return dataclasses.replace(run, experiments=tuple(sorted(run.experiments, key=badness)))


def folded(run: Run) -> tuple[Run, str]:
    """The run with its worst experiments alone, and a sentence about the others; both as they were where all fit."""
    if len(run.experiments) <= MOST:
        return run, ""
    ranked, states = worst_first(run).experiments, worst_states(run)
    rest = Counter(states.get(one.plan.nodeid, "not judged") for one in ranked[MOST:])
    said = ", ".join(f"{rest[state]:,} {state}" for state in (*_WORST, "not judged") if rest[state])
    shown = dataclasses.replace(run, experiments=ranked[:MOST])
    return shown, f"{len(ranked) - MOST:,} experiments more: {said}; -v shows all of them"
