"""Levels and drops of an LLM judge's metric, corrected by people's labels of some replies. Pure functions.

A drop is corrected by samples with labels of both replies: labels of clean replies alone say nothing of the judge's errors on
attacked ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.drops import VariantData, attack_variants
from pytest_crucible.analyse.paired_drop import drop_difference, estimate_drop
from pytest_crucible.analyse.scores import Floats, Pair, Scores
from pytest_crucible.records import HUMAN, ArmOutcomes, Interval, MetricFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A judge's mean on the clean replies, or its drop under an attack, beside the same corrected by labels."""

    metric: str
    attack: str
    """Empty for the mean on the clean replies."""
    arm: str
    judged: float
    """By the judge alone, on all samples with a score."""
    value: float
    interval: Interval | None
    labelled: int
    """Samples with labels."""
    rest: int
    """Samples that only the judge scored."""
    method: str


def correct_drops(data: VariantData, answers: Sequence[ArmOutcomes], metrics: Sequence[str]) -> Iterator[Corrected]:
    """Yield the corrected mean and drops of each metric, arm by arm, where two samples at least have labels.

    Prediction-powered inference (`stats.ppi_mean`) needs samples that are independent and one label for each reply: there is
    nothing for samples in groups and for arms with several replies to a sample.
    """
    if data.attributes.clusters is not None:
        return
    for metric in metrics:
        for number, arm in enumerate(data.plan.arms):
            labels = _labels(metric, answers[number], data.samples)
            if data.plan.draws(number).size > 1 or np.isnan(labels).all():
                continue
            yield from _correct_arm(data, data.facts[metric], number, arm.name, labels)


def _correct_arm(data: VariantData, facts: MetricFacts, number: int, arm: str, labels: Floats) -> Iterator[Corrected]:
    clean = data.originals[facts.name][number]
    yield from _correct_mean(data, facts, arm, clean, labels)
    for attack, names in attack_variants(data.plan):
        twins = data.twins(facts, names, number)
        of_twins = _twin_labels(data, facts, number, names)
        yield from _correct_drop(data, facts, (attack, arm), Pair(facts, clean, twins), (labels, of_twins))


def _correct_mean(
    data: VariantData, facts: MetricFacts, arm: str, clean: Scores, labels: Floats
) -> Iterator[Corrected]:
    labelled = clean.seen & ~np.isnan(labels)
    rest = clean.seen & ~labelled
    if min(labelled.sum(), rest.sum()) < 2:
        return
    mean = stats.ppi_mean(
        labels[labelled], clean.values[labelled], clean.values[rest], bounds=_bounds(facts), level=1 - data.alpha
    )
    yield _build_entry(facts, ("", arm), float(clean.values[clean.seen].mean()), mean)


def _correct_drop(
    data: VariantData, facts: MetricFacts, name: tuple[str, str], pair: Pair, labels: tuple[Floats, Floats]
) -> Iterator[Corrected]:
    seen = pair.originals.seen & pair.twins.seen
    labelled = seen & ~np.isnan(labels[0]) & ~np.isnan(labels[1])
    if labelled.sum() < 2:
        return
    # A drop is positive where the twin is worse.
    is_higher = facts.direction == "higher"
    first, second = (pair.originals, pair.twins) if is_higher else (pair.twins, pair.originals)
    judged = float((first.values - second.values)[seen].mean())
    if (seen & ~labelled).sum() < 2:
        yield from _drop_of_labels(data, facts, name, labels, labelled, judged)
        return
    of_first, of_second = (np.where(labelled, each, np.nan)[seen] for each in (labels if is_higher else labels[::-1]))
    drop = stats.ppi_difference(
        of_first, of_second, first.values[seen], second.values[seen], bounds=_bounds(facts), level=1 - data.alpha
    )
    yield _build_entry(facts, name, judged, drop)


def _drop_of_labels(
    data: VariantData,
    facts: MetricFacts,
    name: tuple[str, str],
    labels: tuple[Floats, Floats],
    labelled: np.ndarray,
    judged: float,
) -> Iterator[Corrected]:
    """Yield the drop of the labels themselves: all samples have them, and the judge adds nothing."""
    clean, twins = (_as_scores(np.where(labelled, each, np.nan)) for each in labels)
    drop = estimate_drop(drop_difference(Pair(facts, clean, twins), data.attributes, labelled, "observed", data.alpha))
    if drop.value is not None:
        yield Corrected(
            metric=facts.name,
            attack=name[0],
            arm=name[1],
            judged=judged,
            value=drop.value,
            interval=drop.interval,
            labelled=int(labelled.sum()),
            rest=0,
            method=f"labels alone, {drop.method}",
        )


def _twin_labels(data: VariantData, facts: MetricFacts, number: int, names: Sequence[str]) -> Floats:
    """Return each sample's label: the mean over the draws of an attack, where every scored reply has one; else NaN."""
    columns = np.array([_labels(facts.name, data.variants[name][number], data.samples) for name in names])
    scored = np.array([data.twins(facts, (name,), number).seen for name in names])
    is_complete = scored.any(axis=0) & (~scored | ~np.isnan(columns)).all(axis=0)
    totals = np.where(scored & ~np.isnan(columns), columns, 0.0).sum(axis=0)
    return np.where(is_complete, totals / np.maximum(scored.sum(axis=0), 1), np.nan)


def _labels(metric: str, answers: ArmOutcomes, samples: int) -> Floats:
    """Return the value of the level that a person gave the first reply to each sample; NaN without one."""
    labels = np.full(samples, np.nan)
    for position, repeat, text in answers.told.get(f"{metric}{HUMAN}", ()):
        # Earlier versions stored the two levels without the value.
        _, _, *value = json.loads(text)
        if repeat == 0 and value:
            labels[position] = value[0]
    return labels


def _bounds(facts: MetricFacts) -> tuple[float, float] | None:
    return (facts.low, facts.high) if math.isfinite(facts.high - facts.low) else None


def _build_entry(facts: MetricFacts, name: tuple[str, str], judged: float, mean: stats.CorrectedMean) -> Corrected:
    return Corrected(
        metric=facts.name,
        attack=name[0],
        arm=name[1],
        judged=judged,
        value=mean.estimate,
        interval=mean.interval,
        labelled=mean.labelled,
        rest=mean.judged,
        method=mean.method,
    )


def _as_scores(values: Floats) -> Scores:
    nothing = np.zeros(len(values), dtype=bool)
    return Scores(values, values, values, nothing, np.isnan(values))
