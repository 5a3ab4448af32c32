"""The slices of an experiment's samples, and the scores of one slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats, Pair, Scores, Shares
from pytest_crucible.analyse.twins import is_by_twin, stack_fields
from pytest_crucible.records import Plan
from pytest_crucible.records.slices import By

if TYPE_CHECKING:
    from pytest_crucible.stats.slices.slicing import Slicing


def slice_all(plan: Plan, expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> dict[By, Slicing]:
    """Return the slices of each field that a target or a comparison names; by `twin`, those of samples and of their twins."""
    fields = dict.fromkeys(measure.by for measure in (*plan.targets, *plan.contrasts) if measure.by is not None)
    if not fields:
        return {}
    # It needs scipy.special, which an analysis without slices does not load.
    from pytest_crucible.measures.fields import slice_samples

    stacked = stack_fields([variant.name for variant in plan.variants], expected, metadata)
    return {
        by: slice_samples(by, *(stacked if is_by_twin(by, plan.variants) else (expected, metadata))) for by in fields
    }


def flag_slice(slicing: Slicing, name: str) -> Flags:
    """Return which samples are in the slice with this name."""
    code = slicing.names.index(name) if name in slicing.names else len(slicing.names)
    return np.asarray(slicing.codes == code)


# A longer table is not readable, and each slice costs a comparison.
MOST_GROUPS = 200
GROUP = "group"
"""The name of the field that is each sample's group."""


def flag_field(slicing: Slicing | None, samples: int) -> Mapping[str, Flags] | None:
    """Return the samples in each slice of a field; None for a field that is not shown."""
    # By twin there are more rows than samples: these are shown elsewhere.
    if slicing is None or len(slicing.codes) != samples or slicing.count > MOST_GROUPS:
        return None
    return {name: np.asarray(slicing.codes == code) for code, name in enumerate(slicing.names)}


def flag_groups(groups: Sequence[str | None]) -> Mapping[str, Flags] | None:
    """Return the samples in each group; None without groups, with one a sample, or with more than MOST_GROUPS."""
    labels = np.array([group or "" for group in groups], dtype=object)
    names = sorted(set(labels) - {""})
    # With fewer than two samples a group on average, a table would list samples rather than groups.
    if not 2 <= len(names) <= min(MOST_GROUPS, len(groups) // 2):
        return None
    return {name: np.asarray(labels == name) for name in names}


def keep_slice(scores: Scores, inside: Flags) -> Scores:
    """Return the scores of one slice: the metric applies to no other sample."""

    def only(values: Floats) -> Floats:
        masked = values.copy()
        masked[~inside] = np.nan
        return masked

    units = scores.units
    if units is not None:
        lost = units.lost.copy()
        lost[~inside] = False
        units = replace(units, values=only(units.values), low=only(units.low), high=only(units.high), lost=lost)
    shares, pair = scores.own_shares, scores.pair
    if shares is not None:
        shares = Shares(np.where(inside, shares.observed, 0.0), np.where(inside, shares.with_lost, 0.0))
    return replace(
        scores,
        values=only(scores.values),
        low=only(scores.low),
        high=only(scores.high),
        lost=scores.lost & inside,
        inapplicable=scores.inapplicable | ~inside,
        units=units,
        own_shares=shares,
        pair=pair and Pair(pair.facts, keep_slice(pair.originals, inside), keep_slice(pair.twins, inside)),
    )
