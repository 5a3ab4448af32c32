"""Samples whose repeats agree, and those that are flaky: the main metric changes from one reply to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.analyse.statistics import estimate_values, mean_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Claim, MetricFacts, Row, Table, View
from pytest_crucible.records.datasets import short_name
from pytest_crucible.records.serialize import pick
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs, no_claims
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import with_interval

decides = False  # no claim of it can fail the session
claims = no_claims

# Enough to rerun a few of them.
HOW_MANY = 5
FLAKY = MetricFacts(name="flaky", kind="binary", low=0.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakySample:
    """One sample with the lowest and highest score of its repeats, and their mean."""

    sample: str
    low: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """One metric in one arm: how many samples have repeats that differ."""

    arm: str
    metric: str
    repeats: int
    """The most that a sample has."""
    n: int
    """Samples with two known repeats or more."""
    flaky: int
    share: float | None
    interval: Interval | None
    worst: tuple[FlakySample, ...]
    """Those whose repeats vary most."""


def compute(inputs: SectionInputs) -> tuple[Stability, ...] | None:
    """Return the main metric's stability in each arm; None where no sample has two repeats."""
    metric = main_metric(inputs.plan, inputs.scores)
    if metric is None:
        return None
    return tuple(_stabilities(inputs, metric)) or None


def view(arms: Sequence[Stability], claims: Sequence[Claim]) -> View:
    """Return a table with a row for each arm."""
    metric = arms[0].metric
    return View(
        title="Stability",
        tables=(
            Table(
                title=f"Repeats of {metric}",
                heads=("arm", "repeats", "n", "stable", "flaky", "share flaky", "flakiest"),
                rows=tuple(Row(cells=_cells(arm)) for arm in arms),
                numbers=("repeats", "n", "stable", "flaky"),
                note="A sample is flaky if two of its repeats have different scores; more repeats find more such samples.",
                verbosity=1,
            ),
        ),
        document=[
            {**pick(arm, "arm metric repeats n flaky share"), **interval_ends(arm.interval), "worst": arm.worst}
            for arm in arms
        ],
    )


def _stabilities(inputs: SectionInputs, metric: str) -> Iterator[Stability]:
    for arm, scores in zip(inputs.plan.arms, inputs.scores[metric], strict=True):
        repeats = _repeats(scores)
        counts = (~np.isnan(repeats)).sum(axis=-1)
        if not (counts > 1).any():
            continue
        spans = np.nanmax(repeats, axis=-1, initial=-np.inf) - np.nanmin(repeats, axis=-1, initial=np.inf)
        flags = (counts > 1) & (spans > 0)
        chosen = (counts > 1).any(axis=1)
        flaky = flags.any(axis=1)
        clusters = None if inputs.clusters is None else inputs.clusters[chosen]
        share = estimate_values(
            mean_of(FLAKY), [FLAKY], [flaky[chosen].astype(np.float64)], clusters, level=1 - inputs.alpha
        )
        yield Stability(
            arm=arm.name,
            metric=metric,
            repeats=int(counts.max()),
            n=int(chosen.sum()),
            flaky=int(flaky.sum()),
            share=share.value,
            interval=share.interval,
            worst=tuple(_flakiest(inputs, repeats, flaky)),
        )


def _repeats(scores: Scores) -> Floats:
    """Return samples x models and prompts x replies to one request: its rounds and repeats."""
    units = scores.units
    if units is None:
        return np.empty((len(scores.values), 1, 0))
    samples, prompts, trainings, rounds, repeats = units.values.shape
    return units.values.reshape(samples, prompts * trainings, rounds * repeats)


def _flakiest(inputs: SectionInputs, repeats: Floats, flaky: Flags) -> Iterator[FlakySample]:
    positions = np.flatnonzero(flaky)
    of_samples = repeats.reshape(len(repeats), -1)[positions]
    order = np.argsort(-np.nanvar(of_samples, axis=1), kind="stable")[:HOW_MANY]
    samples = inputs.stored.samples([int(position) for position in positions[order]])
    for place in order:
        position, values = int(positions[place]), of_samples[place]
        if position in samples:
            yield FlakySample(
                sample=samples[position].id,
                low=float(np.nanmin(values)),
                high=float(np.nanmax(values)),
                mean=float(np.nanmean(values)),
            )


def _cells(arm: Stability) -> tuple[str, ...]:
    worst = ", ".join(f"{short_name(sample.sample)} ({sample.mean:.3g})" for sample in arm.worst)
    counts = (f"{arm.repeats:,}", f"{arm.n:,}", f"{arm.n - arm.flaky:,}", f"{arm.flaky:,}")
    return (arm.arm, *counts, with_interval(arm.share, arm.interval), worst)
