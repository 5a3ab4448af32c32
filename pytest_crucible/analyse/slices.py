"""The slices of an experiment's samples, and samples beside their twins for measures by the field `twin`: `gap(accuracy by twin)`.

The originals come first, then the twins of each variant. A sample and its twins are one cluster, so that differences between
versions are paired. Where `twin` is not about variants, it is a field like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_crucible.analyse.scores import Flags, Floats, Pair, Scores, Shares
from pytest_crucible.analyse.statistics import Clusters, SampleAttributes
from pytest_crucible.records import Measure, MetricFacts, Plan
from pytest_crucible.records.datasets import TWIN, By

if TYPE_CHECKING:
    from pytest_crucible.stats.slices.slicing import Slicing


OfArms = tuple[Scores, ...]


def is_by_twin(by: By | None, variants: Sequence[object]) -> bool:
    """Return whether a measure compares the versions of samples that have variants."""
    return by is not None and bool(variants) and any(field.name == TWIN for field in by.fields)


def twin_metrics(plan: Plan) -> list[str]:
    """Return the metrics of all measures by twin."""
    measures = (*plan.targets, *plan.contrasts)
    return list(dict.fromkeys(name for each in measures if is_by_twin(each.by, plan.variants) for name in each.metrics))


def score_twins(
    plan: Plan, facts: Mapping[str, MetricFacts], on_variant: Callable[[MetricFacts, str], OfArms]
) -> dict[str, tuple[OfArms, ...]]:
    """Return the scores of each metric that is compared by twin: variants, in the order of the plan, x arms."""
    return {
        name: tuple(on_variant(facts[name], variant.name) for variant in plan.variants)
        for name in twin_metrics(plan)
        if name in facts
    }


def stack_fields(
    variants: Sequence[str], expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]
) -> tuple[list[Any], list[Mapping[str, Any]]]:
    """Return the fields of the originals, and of their twins in each variant, which are named by `twin`."""
    stacked: list[Mapping[str, Any]] = list(metadata)
    for name in variants:
        # A twin of a sample without a version of its own does not count as a version.
        stacked += [{**sample, TWIN: name if sample.get(TWIN) is not None else None} for sample in metadata]
    return [*expected] * (1 + len(variants)), stacked


def stack_scores(originals: Scores, twins: Sequence[Scores]) -> Scores:
    """Return the scores of the originals, and below them those of their twins in each variant."""
    parts = [originals, *twins]
    has_units = all(part.units is not None for part in parts)
    has_shares = any(part.own_shares is not None for part in parts)
    whole = (replace(part, units=part.units if has_units else None, own_shares=part.shares if has_shares else None,
                     pair=None) for part in parts)  # fmt: skip
    stacked: Scores = _stack(list(whole))
    return stacked


def _stack(parts: Sequence[Any]) -> Any:
    """Return records of arrays as one record, whose arrays are those of all of them."""
    columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(parts[0])}
    return type(parts[0])(
        **{
            name: None if values[0] is None
            else np.concatenate(values) if isinstance(values[0], np.ndarray)
            else _stack(values)
            for name, values in columns.items()
        }
    )  # fmt: skip


def stack_attributes(measure: Measure, attributes: SampleAttributes, samples: int, variants: int) -> SampleAttributes:
    """Return the attributes of the originals and of their twins: a sample and its twins are one cluster, at least."""
    own: Clusters = np.arange(samples) if attributes.clusters is None else attributes.clusters
    expected = [*attributes.expected] * (1 + variants) if attributes.expected else ()
    keys = None if attributes.keys is None else np.tile(attributes.keys, 1 + variants)
    return replace(
        attributes,
        clusters=np.tile(own, 1 + variants),
        expected=expected,
        keys=keys,
        largest_group=attributes.largest_group * (1 + variants),
    )


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


def flag_sliced(slicing: Slicing) -> Flags:
    """Return which samples are in a slice."""
    return np.asarray(slicing.codes >= 0)


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
