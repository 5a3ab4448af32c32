"""Finds the samples on which arms, or judges, disagree: their replies say most about a judge where labels are few."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import ORDERS, VOTES, ArmOutcomes, MetricFacts, Plan, ScoreColumns
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.runs import RunStore

Flags = npt.NDArray[np.bool_]
WIDE = 0.5
"""Arms disagree where their scores differ by at least this share of the metric's range, as right and wrong do."""


def find_disagreements(store: RunStore, experiment: int, plan: Plan, twin: int) -> Flags:
    """Return, for each sample, whether the first replies to it, or to its twin, got wide scores apart or votes that differ."""
    samples = store.scalar("SELECT COUNT(*) FROM samples WHERE dataset = :dataset", dataset=plan.dataset_sha256)
    flags = np.zeros(samples, dtype=bool)
    arms = [load_outcomes(store, experiment, number, plan.draws(number), twin) for number in range(len(plan.arms))]
    facts = {metric.name: metric for metric in plan.metrics}
    for name in dict.fromkeys(name for arm in arms for name in arm.scores):
        flags |= _wide_apart([arm.scores[name] for arm in arms if name in arm.scores], facts.get(name), samples)
    for arm in arms:
        flags[list(_split_verdicts(arm))] = True
    return flags


def _wide_apart(columns: Sequence[ScoreColumns], facts: MetricFacts | None, samples: int) -> Flags:
    is_binary = all(all(column.is_bool) for column in columns)
    low, high = (0.0, 1.0) if is_binary or facts is None else (facts.low, facts.high)
    least, most = np.full(samples, np.inf), np.full(samples, -np.inf)
    for column in columns:
        first = np.array(column.repeats, dtype=np.intp) == 0
        positions = np.array(column.positions, dtype=np.intp)[first]
        # A value of None does not apply: NaN is in no comparison.
        values = np.array(column.values, dtype=np.float64)[first]
        least[positions] = np.fmin(least[positions], values)
        most[positions] = np.fmax(most[positions], values)
    is_ranged = (is_binary or facts is not None) and np.isfinite(high - low)
    return most - least >= WIDE * (high - low) if is_ranged else np.zeros(samples, dtype=bool)


def _split_verdicts(arm: ArmOutcomes) -> Iterator[int]:
    """Yield the positions of replies that a judge's votes, or both orders of a preference, do not agree on."""
    texts: Mapping[str, Sequence[tuple[int, int, str]]] = arm.judge_texts
    for name, rows in texts.items():
        for position, repeat, text in rows if name.endswith((VOTES, ORDERS)) else ():
            verdicts = json.loads(text) if name.endswith(VOTES) else [json.loads(text)]
            if repeat == 0 and any(len(set(of_question)) > 1 for of_question in verdicts):
                yield position
