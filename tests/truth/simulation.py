"""Shared parts of the simulations: rows of the decision table, and limits of rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from evals import Array, Drawn, Eval

from pytest_crucible.stats import TABLE
from pytest_crucible.stats.choose import Row
from pytest_crucible.stats.inputs import OPEN, Arms, Observed, declare_arm, declare_arms, declare_pairs
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.resampling.draws import MonteCarlo

ALPHA = 0.05


def at_most(errors: int, runs: int, limit: float) -> bool:
    """True unless the rate is above the limit by more than four standard errors of the simulation."""
    return errors / runs <= limit + 4 * math.sqrt(limit * (1 - limit) / runs)


def at_least(hits: int, runs: int, limit: float) -> bool:
    return at_most(runs - hits, runs, 1 - limit)


def line(question: str, design: str, scale: str, *, clustered: bool = False) -> Row:
    return next(row for row in TABLE if row[:4] == (question, design, scale, clustered))


# With the observed arrangement 1,000, of which .05 is a whole number: p at most .05 is then as rare as with 10,000.
FEW_DRAWS = 999


def answers_of(row: Row, case: Eval, drawn: Drawn, *how: Any, labels: Any = None) -> list[Any]:
    """Return the result of a row of the table for each run of an evaluation; None where it refuses. `labels` are its clusters."""
    answers: list[Any] = []
    for observed in observed_runs(row, case, drawn, labels):
        try:
            answers.append(row.function(observed, *how))
        except NotEnoughData:
            answers.append(None)
    return answers


def observed_runs(row: Row, case: Eval, drawn: Drawn, labels: Any = None) -> Iterator[Observed | Arms]:
    """Yield each run of an evaluation, as a line of the table takes it; permutation tests have a seed and few draws each."""
    for seed, observed in enumerate(_observe(row, case, drawn, clusters_of(row, drawn) if labels is None else labels)):
        if isinstance(observed, Arms):
            setting = MonteCarlo(seed=seed, draws=FEW_DRAWS, finest=1 / (FEW_DRAWS + 1))
            yield replace(observed, monte_carlo=setting)
        else:
            yield observed


def clusters_of(row: Row, drawn: Drawn) -> Any:
    """(candidate's, baseline's) for two arms, which saw other passages."""
    if drawn.clusters is None or row.design != "two arms":
        return drawn.clusters
    return drawn.clusters, drawn.clusters + drawn.clusters.size


def _observe(row: Row, case: Eval, drawn: Drawn, labels: Any) -> Iterator[Observed | Arms]:
    facts: dict[str, Any] = {"kind": case.kind, "bounds": OPEN if case.bounds is None else case.bounds}
    declare = declare_pairs if row.design == "pairs" else declare_arms
    for theirs, ours in zip(_average(drawn.baseline), _average(drawn.candidate), strict=True):
        if row.design == "one arm":
            yield declare_arm(ours, clusters=labels, **facts)
        else:
            yield declare(ours, theirs, clusters=labels, **facts)


def _average(scores: Array) -> Array:
    """Over the repeats of each sample, where there are some."""
    return scores.mean(axis=2) if scores.ndim == 3 else scores


def show_share(what: str, hits: int, runs: int) -> int:
    """Print the share of runs with its standard error (`pytest -s` shows it), and return the hits."""
    share = hits / runs
    print(f"{what}: {share:.3f} +- {math.sqrt(share * (1 - share) / runs):.3f} (standard error; of {runs})")
    return hits
