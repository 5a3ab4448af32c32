"""Scores of the terms by which targets and comparisons name a variant of the samples: `exact_match.drop[homoglyph]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pytest_crucible.analyse.scores import (
    Flags,
    Floats,
    Pair,
    Scores,
    Shares,
    Units,
    as_units,
    mean_over_repeats,
    means_over,
    whole_shares,
)
from pytest_crucible.records import MetricFacts, Plan, VariantTerm
from pytest_crucible.records.measures import BROKEN, BROKEN_ANY, DROP, term_facts

OfArms = tuple[Scores, ...]


def score_terms(
    plan: Plan,
    facts: Mapping[str, MetricFacts],
    originals: Mapping[str, OfArms],
    twins: Callable[[MetricFacts, str], OfArms],
) -> tuple[dict[str, MetricFacts], dict[str, OfArms]]:
    """Return facts and scores of the plan's terms, by the name of the term.

    `facts` and `originals` are those of the metrics; `twins` returns the scores of a metric on a variant. A term whose metric
    has no scores, or is not binary where its view needs that, is left out.
    """
    own = {metric.name: metric for metric in plan.variant_metrics}
    resolved: dict[str, MetricFacts] = {}
    scored: dict[str, OfArms] = {}
    for term in plan.variant_terms:
        of_metric = own.get(term.metric) or facts.get(term.metric)
        lacks_view = of_metric is not None and term.view in (BROKEN, BROKEN_ANY) and of_metric.kind != "binary"
        if of_metric is None or lacks_view or not (term.metric in originals or term.metric in own):
            continue
        draws = [twins(of_metric, variant) for variant in term.variants]
        combined = tuple(combine(of_metric, of_arm, is_worst=_is_worst(term)) for of_arm in zip(*draws, strict=True))
        name, count = term.facts.name, 1 if _is_worst(term) else len(term.variants)
        resolved[name] = term_facts(name, term.view, of_metric, count)
        scored[name] = (
            combined if not term.view
            else tuple(view_scores(term.view, of_metric, *pair) for pair in zip(originals[term.metric], combined, strict=True))
        )  # fmt: skip
    return resolved, scored


def _is_worst(term: VariantTerm) -> bool:
    # One wrong reply breaks a sample, whichever draw it was.
    return term.view == BROKEN_ANY or (term.group is not None and term.group.is_worst)


def combine(facts: MetricFacts, draws: Sequence[Scores], *, is_worst: bool) -> Scores:
    """Return the scores of several variants as one: their mean over all replies, or the worst of their means.

    Variants that do not apply to a sample are left out of it.
    """
    if len(draws) == 1:
        return draws[0]
    return _worst_of(facts, draws) if is_worst else _mean_of(draws)


def view_scores(view: str, facts: MetricFacts, originals: Scores, twins: Scores) -> Scores:
    """Return a view of a metric, from its scores on the original samples and on their twins."""
    return drop_scores(facts, originals, twins) if view == DROP else broken_scores(facts, originals, twins)


def drop_scores(facts: MetricFacts, originals: Scores, twins: Scores) -> Scores:
    """Return the original samples minus their twins, signed so that positive is worse."""
    first, second = (originals, twins) if facts.direction == "higher" else (twins, originals)
    lost = (first.lost | second.lost) & ~(first.inapplicable | second.inapplicable)
    inapplicable = first.inapplicable | second.inapplicable
    units = None
    if first.units is not None and second.units is not None:
        higher, lower = mean_over_repeats(first.units), mean_over_repeats(second.units)
        units = Units(
            higher.values - lower.values, higher.low - lower.high, higher.high - lower.low, higher.lost | lower.lost
        )
    return Scores(
        values=first.values - second.values,
        low=first.low - second.high,
        high=first.high - second.low,
        lost=lost,
        inapplicable=inapplicable,
        units=units,
        pair=Pair(facts, originals, twins),
        own_shares=whole_shares(originals.seen & twins.seen, inapplicable, originals.skipped | twins.skipped),
    )


def broken_scores(facts: MetricFacts, originals: Scores, twins: Scores) -> Scores:
    """Return the share of wrong replies to the twins of each sample whose original is right; others are not applicable."""
    is_higher = facts.direction == "higher"
    right = originals.values > 0.5 if is_higher else originals.values < 0.5
    # A sample whose own reply is lost may have been right: its share is between 0 and 1.
    unknown = originals.lost & ~originals.seen
    applies = (right | unknown) & ~twins.inapplicable

    def wrong(values: Floats) -> Floats:
        return 1 - values if is_higher else values

    low, high = (wrong(twins.high), wrong(twins.low)) if is_higher else (twins.low, twins.high)
    nothing = np.full(len(right), np.nan)
    return Scores(
        values=np.where(right & applies, wrong(twins.values), nothing),
        low=np.where(applies, np.where(unknown, 0.0, low), nothing),
        high=np.where(applies, np.where(unknown, 1.0, high), nothing),
        lost=applies & (unknown | twins.lost),
        inapplicable=~applies,
        own_shares=whole_shares(right & twins.seen, ~applies, originals.skipped | twins.skipped),
    )


def _mean_of(draws: Sequence[Scores]) -> Scores:
    units = [draw.units or as_units(draw) for draw in draws]
    stacked = Units(
        *(
            np.concatenate([getattr(part, name) for part in units], axis=-1)
            for name in ("values", "low", "high", "lost")
        )
    )
    size = len(draws[0].values)
    values, low, high = (means_over(getattr(stacked, name).reshape(size, -1)) for name in ("values", "low", "high"))
    inapplicable: Flags = np.all([draw.inapplicable for draw in draws], axis=0)
    lost: Flags = np.any([draw.lost for draw in draws], axis=0)
    return Scores(values, low, high, lost, inapplicable, units=stacked, own_shares=_shares_of(draws))


def _worst_of(facts: MetricFacts, draws: Sequence[Scores]) -> Scores:
    # Both ignore NaN, which stands for a variant that does not apply.
    worse = np.fmin if facts.direction == "higher" else np.fmax
    values, low, high = (worse.reduce([getattr(draw, name) for draw in draws]) for name in ("values", "low", "high"))
    with_units = [draw.units for draw in draws if draw.units is not None]
    units = None
    if len(with_units) == len(draws):
        low_units, high_units = (worse.reduce([getattr(part, name) for part in with_units]) for name in ("low", "high"))
        lost: Flags = np.any([part.lost for part in with_units], axis=0)
        units = Units(worse.reduce([part.values for part in with_units]), low_units, high_units, lost)
    return Scores(
        values,
        low,
        high,
        np.any([draw.lost for draw in draws], axis=0),
        np.all([draw.inapplicable for draw in draws], axis=0),
        units=units,
        own_shares=_shares_of(draws),
    )


def _shares_of(draws: Sequence[Scores]) -> Shares:
    """Return shares of samples that have some draw that the metric applies to."""
    scored, inapplicable, skipped = (
        combined([getattr(draw, name) for draw in draws], axis=0)
        for combined, name in ((np.any, "seen"), (np.all, "inapplicable"), (np.all, "skipped"))
    )
    return whole_shares(scored, inapplicable, skipped)
