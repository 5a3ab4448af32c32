"""Filters and sorts the samples of an index."""

from __future__ import annotations

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.features.view.samples.index import STATES, Codes, SampleIndex
from pytest_crucible.features.view.samples.state import ListState

FAILED, LOST, SKIPPED = (STATES.index(state) for state in ("failed", "lost", "skipped"))


def select_samples(index: SampleIndex, state: ListState, *others: Flags) -> Codes:
    """Return the positions of the samples of a list, in its order. `others` are the filters that need the store."""
    inside = np.ones(index.size, dtype=bool) if not state.group else index.groups.flag(state.group)
    for flags in (*others, *([_flag_outcome(index, state)] if state.show else ())):
        inside &= flags
    positions: Codes = np.flatnonzero(inside)
    key = _sort_key(index, state)
    # numpy sorts NaN, what is unknown, last; a stable order leaves ties as the dataset has them.
    return positions if key is None else positions[np.argsort(key[positions], kind="stable")]


def gains(index: SampleIndex, state: ListState) -> Floats:
    """Return candidate minus baseline, positive where the candidate is better; NaN where either has no value."""
    column = index.metrics.get(state.metric, ())
    if len(column) < 2:
        return np.full(index.size, np.nan)
    return _sign(index, state.metric) * subtract_scores(column[0].values, column[state.baseline].values)


def subtract_scores(ours: Floats, theirs: Floats) -> Floats:
    """Return differences of means over repeats: 0 also where equal scores in another order differ in their last digits."""
    return np.where(np.isclose(ours, theirs, rtol=1e-12, atol=0), 0.0, ours - theirs)


def _sign(index: SampleIndex, metric: str) -> float:
    return -1.0 if index.facts[metric].direction == "lower" else 1.0


def shown_arms(index: SampleIndex, state: ListState) -> tuple[int, ...]:
    """Return the numbers of the arms that a list shows: the candidate, and the baseline if there is one."""
    return (0, state.baseline) if len(index.states) > 1 else (0,)


def _flag_outcome(index: SampleIndex, state: ListState) -> Flags:
    if state.show in ("failed", "lost", "skipped"):
        return np.asarray(np.any([_flag_state(index, state, arm) for arm in shown_arms(index, state)], axis=0))
    gain = gains(index, state)
    sign = {"worse": -1, "equal": 0, "better": 1}[state.show]
    # The sign of NaN is NaN.
    return np.asarray(np.sign(gain) == sign)


def _flag_state(index: SampleIndex, state: ListState, arm: int) -> Flags:
    states = index.states[arm]
    if state.show != "lost":
        return np.asarray(states == (FAILED if state.show == "failed" else SKIPPED))
    of_metric = index.metrics.get(state.metric)
    # A reply may be there while its score is lost. A failure without a finite worst value counts as lost in an analysis only.
    of_scores = of_metric[arm].lost & (states != FAILED) if of_metric else False
    return np.asarray((states == LOST) | of_scores)


def _sort_key(index: SampleIndex, state: ListState) -> Floats | None:
    """Return a number for each sample, the least of which comes first; None for the order of the dataset."""
    if not state.sort:
        return None
    if state.sort in ("slowest", "fastest"):
        return index.latency_s[0] * (-1.0 if state.sort == "slowest" else 1.0)
    if state.sort in ("most-lost", "most-gained"):
        return gains(index, state) * (-1.0 if state.sort == "most-gained" else 1.0)
    arm = state.baseline if state.sort.startswith("baseline") else 0
    column = index.metrics.get(state.metric, ())
    if arm >= len(column):
        return None
    reverse = -1.0 if state.sort.endswith("best") else 1.0
    return column[arm].values * (_sign(index, state.metric) * reverse)
