"""Orders experiments, worst first, and selects the few that the terminal prints in full."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from pytest_crucible.records import Analysis, Run
from pytest_crucible.records.types import State

# Experiments that are printed in full, and that stay in the order of their suite. More tables would hide the worst.
MOST = 12
_WORST: tuple[State, ...] = ("missed", "undecided", "met")


def worst_states(run: Run) -> Mapping[str, State]:
    """Return the worst verdict of each experiment, by its nodeid. One without verdicts is left out."""
    states: dict[str, State] = {}
    for verdict in run.verdicts:
        earlier = states.get(verdict.nodeid)
        states[verdict.nodeid] = verdict.state if earlier is None else min(earlier, verdict.state, key=_WORST.index)
    return states


def worst_first(run: Run) -> Run:
    """Return the run with its experiments from the worst on, if they are many."""
    if len(run.experiments) <= MOST:
        return run
    states = worst_states(run)

    def badness(analysis: Analysis) -> int:
        state = states.get(analysis.plan.nodeid)
        # Without a verdict there is nothing to act on: such experiments come last.
        return len(_WORST) if state is None else _WORST.index(state)

    return dataclasses.replace(run, experiments=tuple(sorted(run.experiments, key=badness)))


def fold_experiments(run: Run) -> tuple[Run, str]:
    """Return the run with only its worst experiments, and a sentence about the others.

    Where all fit, the run is unchanged and the sentence is empty.
    """
    if len(run.experiments) <= MOST:
        return run, ""
    ranked, states = worst_first(run).experiments, worst_states(run)
    rest = Counter(states.get(analysis.plan.nodeid, "not judged") for analysis in ranked[MOST:])
    counts = ", ".join(f"{rest[state]:,} {state}" for state in (*_WORST, "not judged") if rest[state])
    worst = dataclasses.replace(run, experiments=ranked[:MOST])
    return worst, f"{len(ranked) - MOST:,} experiments more: {counts}; -v shows all of them"
