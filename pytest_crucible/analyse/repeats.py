"""Scores of samples by a function of their repeats: their mean, or the chance that k draws of them pass.

A table of replies keeps its prompts, trainings and rounds: the repeats are those of one cell. A lost repeat is unknown, not a
failure: at the low end it fails, at the high end it passes, and a sample with fewer than k known repeats has no value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pytest_crucible.analyse.scores import Floats, Scores, Units, as_units, mean_over_repeats, means_over, whole_shares
from pytest_crucible.analyse.statistics import row_of
from pytest_crucible.measures.means import RELATIONS
from pytest_crucible.measures.statistic import Chances
from pytest_crucible.records import Measure


def reduce_repeats(measure: Measure, scores: Scores) -> Scores:
    """Return the scores that a measure is about: unchanged unless it is one of its samples' repeats."""
    chances = row_of(measure).chances
    if chances is None and not measure.by_sample:
        return scores
    units = scores.units or as_units(scores)
    cells = mean_over_repeats(units) if chances is None else _chances(measure, chances, units)
    of_samples = [getattr(cells, name).reshape(len(scores.values), -1) for name in ("values", "low", "high")]
    values, low, high = map(means_over, of_samples)
    inapplicable = np.isnan(low)
    return replace(
        scores,
        values=values,
        low=low,
        high=high,
        lost=np.asarray(cells.lost.reshape(len(values), -1).any(axis=1)),
        inapplicable=inapplicable,
        units=cells if cells.values[:1].size > 1 else None,
        own_shares=whole_shares(~np.isnan(values), inapplicable, scores.skipped),
    )


def _chances(measure: Measure, chances: Chances, units: Units) -> Units:
    """Return units of one repeat each: the chance that k draws of a cell pass."""
    k = measure.draws or 1
    scored, lost = (flags.sum(axis=-1, keepdims=True) for flags in (~np.isnan(units.values), units.lost))
    passed = _passes(measure, units.values).sum(axis=-1, keepdims=True)

    def chance(lost_that_pass: Floats | int, attempts: Floats) -> Floats:
        return chances(attempts, passed + lost_that_pass, k)

    values, low, high = chance(0, scored), chance(0, scored + lost), chance(lost, scored + lost)
    return Units(values, low, high, (lost > 0) & ~np.isnan(low))


def _passes(measure: Measure, values: Floats) -> Floats:
    """Return 1 where a reply fulfils the condition, or is yes, and 0 elsewhere."""
    relation, threshold = measure.inner_relation or ">", measure.inner_value or 0.0
    return np.asarray(RELATIONS[relation](values, threshold), dtype=np.int64)
