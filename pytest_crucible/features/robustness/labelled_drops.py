"""Levels and drops of an LLM judge's metric, corrected by people's labels of some replies. Pure functions.

A drop is corrected by samples with labels of both replies: labels of clean replies show nothing about the judge's errors on
attacked ones. Of several replies to a sample the first one has the label. Its error is like that of the others, so the judge's
errors are those on first replies, and what they correct is the judge's mean over all replies of the other samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Flags, Floats, Pair, Scores, scores_by_repeat
from pytest_crucible.analyse.slices import GROUP, flag_field, flag_groups
from pytest_crucible.analyse.targets import drop_difference, estimate_drop
from pytest_crucible.features.robustness.drops import Drop, VariantData, attack_variants, compute_slice_drops
from pytest_crucible.measures.row import Measured
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import HUMAN, ArmOutcomes, MetricFacts, Note, Row, Table
from pytest_crucible.records.datasets import short_name
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import with_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A judge's mean on the clean replies, or its drop under an attack, beside the same corrected by labels."""

    metric: str
    attack: str
    """Empty for the mean on the clean replies."""
    arm: str
    judged: float
    """The value by the judge alone, on all samples with a score."""
    value: float
    interval: Interval | None
    labelled: int
    """Samples with labels."""
    rest: int
    """Samples that only the judge scored."""
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncorrected:
    """An arm whose labels cannot correct a metric, and the reason."""

    metric: str
    arm: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Labelled:
    """Scores of one metric on all samples, the judge's scores of first replies, and people's labels of these."""

    scores: Scores
    first: Floats
    labels: Floats

    @property
    def flags(self) -> Flags:
        return self.scores.seen & ~np.isnan(self.first) & ~np.isnan(self.labels)

    def predictions(self, labelled: Flags) -> Floats:
        """Return the judge's score of the labelled reply to a sample; of the other samples the mean over all replies."""
        return np.where(labelled, self.first, self.scores.values)


def correct_drops(
    data: VariantData, answers: Sequence[ArmOutcomes], metrics: Sequence[str]
) -> Iterator[Corrected | Uncorrected]:
    """Yield the corrected mean and drops of each metric, arm by arm, where two samples at least have labels.

    The method is prediction-powered inference (`stats.ppi_mean`), by groups where samples have some. Labels of first replies
    say nothing of the judge's errors on other prompts, trainings or rounds: arms with several of these are not corrected.
    """
    for metric in metrics:
        for number, arm in enumerate(data.plan.arms):
            labels = _labels(metric, answers[number], data.samples)
            if np.isnan(labels).all():
                continue
            if _is_chosen_unequally(metric, answers[number]):
                reason = (
                    "they were chosen where arms or judges disagree; label a random part, with --label-first random"
                )
                yield Uncorrected(metric=metric, arm=arm.name, reason=reason)
                continue
            draws = data.plan.draws(number)
            if draws.size > draws.repeats:
                reason = "they are of first replies, and there are several prompts, trainings or rounds"
                yield Uncorrected(metric=metric, arm=arm.name, reason=reason)
                continue
            clean = _Labelled(data.originals[metric][number], _first(data, metric, number, answers[number]), labels)
            try:
                yield from _correct_arm(data, data.facts[metric], number, arm.name, clean)
            except NotEnoughData as error:
                yield Uncorrected(metric=metric, arm=arm.name, reason=str(error))


def _first(data: VariantData, metric: str, number: int, answers: ArmOutcomes) -> Floats:
    repeats = data.plan.draws(number).size
    return scores_by_repeat(data.facts[metric], answers, samples=data.samples, repeats=repeats)[:, 0]


def _correct_arm(data: VariantData, facts: MetricFacts, number: int, arm: str, clean: _Labelled) -> Iterator[Corrected]:
    yield from _correct_mean(data, facts, arm, clean)
    for attack, names in attack_variants(data.plan):
        yield from _correct_drop(data, facts, (attack, arm), clean, _of_twins(data, facts, number, names))


def _correct_mean(data: VariantData, facts: MetricFacts, arm: str, clean: _Labelled) -> Iterator[Corrected]:
    scored, labelled = clean.scores.seen, clean.flags
    rest = scored & ~labelled
    if min(labelled.sum(), rest.sum()) < 2:
        return
    clusters = data.attributes.clusters
    mean = stats.ppi_mean(
        clean.labels[labelled],
        clean.first[labelled],
        clean.scores.values[rest],
        bounds=_bounds(facts),
        clusters=None if clusters is None else (clusters[labelled], clusters[rest]),
        level=1 - data.alpha,
    )
    yield _build_entry(facts, ("", arm), float(clean.scores.values[scored].mean()), mean)


def _correct_drop(
    data: VariantData, facts: MetricFacts, name: tuple[str, str], clean: _Labelled, twins: _Labelled
) -> Iterator[Corrected]:
    scored = clean.scores.seen & twins.scores.seen
    labelled = clean.flags & twins.flags
    if labelled.sum() < 2:
        return
    # A drop is positive where the twin is worse.
    first, second = (clean, twins) if facts.direction == "higher" else (twins, clean)
    judged = float((first.scores.values - second.scores.values)[scored].mean())
    if (scored & ~labelled).sum() < 2:
        yield from _drop_of_labels(data, facts, name, (clean.labels, twins.labels), labelled, judged)
        return
    of_first, of_second = (np.where(labelled, side.labels, np.nan)[scored] for side in (first, second))
    drop = stats.ppi_difference(
        of_first,
        of_second,
        first.predictions(labelled)[scored],
        second.predictions(labelled)[scored],
        bounds=_bounds(facts),
        clusters=None if data.attributes.clusters is None else data.attributes.clusters[scored],
        level=1 - data.alpha,
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


def _of_twins(data: VariantData, facts: MetricFacts, number: int, names: Sequence[str]) -> _Labelled:
    """Return scores and labels of an attack: means over its draws, where every scored first reply has a label."""
    arms = [data.variants[name][number] for name in names]
    columns = np.array([_labels(facts.name, arm, data.samples) for arm in arms])
    first = np.array([_first(data, facts.name, number, arm) for arm in arms])
    scored = ~np.isnan(first)
    is_complete = scored.any(axis=0) & (~scored | ~np.isnan(columns)).all(axis=0)

    def average(values: Floats) -> Floats:
        totals = np.where(scored & ~np.isnan(values), values, 0.0).sum(axis=0)
        return np.where(is_complete, totals / np.maximum(scored.sum(axis=0), 1), np.nan)

    return _Labelled(data.twins(facts, names, number), average(first), average(columns))


def _labels(metric: str, answers: ArmOutcomes, samples: int) -> Floats:
    """Return the value of the level that a person gave the first reply to each sample; NaN without one."""
    labels = np.full(samples, np.nan)
    for position, repeat, text in answers.judge_texts.get(f"{metric}{HUMAN}", ()):
        # Earlier versions stored the two levels without the value; a weight may follow it.
        _, _, *value = json.loads(text)
        if repeat == 0 and value:
            labels[position] = value[0]
    return labels


def _is_chosen_unequally(metric: str, answers: ArmOutcomes) -> bool:
    """Return whether people's labels have different weights: the judge's errors on them are then not those on all replies."""
    rows = answers.judge_texts.get(f"{metric}{HUMAN}", ())
    return len({tuple(json.loads(text)[3:]) for _, repeat, text in rows if repeat == 0}) > 1


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


_ASSUMPTION = (
    "The judge's errors on samples with labels correct the others (prediction-powered inference), if the labelled samples are a "
    "random part of all. Intervals are not adjusted for many attacks; with fewer than 50 labels they may be too narrow."
)


def corrected_tables(corrected: Sequence[Corrected], alpha: float) -> Iterator[Table]:
    """Yield a table for each metric with labels."""
    for metric in dict.fromkeys(entry.metric for entry in corrected):
        entries = [entry for entry in corrected if entry.metric == metric]
        yield Table(
            title=f"{metric} corrected by labels",
            heads=(
                f"{metric} by labels",
                "arm",
                "by the judge",
                f"corrected [{(1 - alpha) * 100:g} %]",
                "labelled",
                "rest",
            ),
            rows=tuple(Row(cells=_cells(entry)) for entry in entries),
            numbers=("by the judge", "labelled", "rest"),
            note=_ASSUMPTION,
        )


def corrected_notes(corrected: Sequence[Corrected], uncorrected: Sequence[Uncorrected] = ()) -> Iterator[Note]:
    """Yield a note for each metric and arm whose labels correct no drop."""
    for entry in uncorrected:
        yield Note(text=f"the labels of {entry.metric} of {entry.arm} correct nothing: {entry.reason}")
    names = dict.fromkeys((entry.metric, entry.arm) for entry in corrected)
    with_drop = {(entry.metric, entry.arm) for entry in corrected if entry.attack}
    for metric, arm in names:
        if (metric, arm) not in with_drop:
            yield Note(
                text=f"the labels of {metric} of {arm} are of clean replies alone: they correct the level without an attack and "
                "no drop, because how the judge errs on attacked replies is unknown; label both replies to a sample"
            )


def corrected_document(entry: Corrected) -> dict[str, object]:
    """Return the JSON entry of one corrected mean or drop."""
    names = ("metric", "arm", "judged", "value", "labelled", "rest", "method")
    return {**pick(entry, *names), "attack": entry.attack or None, **interval_ends(entry.interval)}


def _cells(entry: Corrected) -> tuple[str, ...]:
    is_drop = bool(entry.attack)
    judged = f"{entry.judged:+.3f}" if is_drop else f"{entry.judged:.3f}"
    value = with_interval(entry.value, entry.interval, sign=is_drop)
    about = f"drop under {entry.attack}" if is_drop else "clean"
    return (about, entry.arm, judged, value, f"{entry.labelled:,}", f"{entry.rest:,}")


# Each costs about a millisecond, and a longer table is not readable.
MOST_DROPS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedDrops:
    """The drops of one metric in the slices of one field."""

    field: str
    metric: str
    alpha: float
    drops: tuple[tuple[str, Drop], ...]
    """The name of the slice, and the drop in it; empty if there would be more than MOST_DROPS."""


def slice_drops(inputs: SectionInputs, data: VariantData, metrics: Sequence[str]) -> Iterator[SlicedDrops]:
    """Yield the drops of each metric by each field with two slices or more that have scores."""
    attacks = sum(1 for _ in attack_variants(data.plan))
    for field, labels in _shown_fields(inputs):
        # Within a group there is nothing to cluster by.
        of_field = data if field != GROUP else replace(data, attributes=replace(data.attributes, clusters=None))
        is_long = len(labels) * attacks * len(data.plan.arms) > MOST_DROPS
        for metric in metrics:
            drops = () if is_long else tuple(compute_slice_drops(of_field, metric, labels))
            if is_long or len({name for name, _ in drops}) > 1:
                yield SlicedDrops(field=field, metric=metric, alpha=inputs.alpha, drops=drops)


def slice_table(sliced: SlicedDrops) -> Table:
    """Return the drops of each attack and arm, slice by slice."""
    heads = (f"attack by {sliced.field}", "slice", "arm", "clean", "attacked", f"drop [{(1 - sliced.alpha) * 100:g} %]")
    return Table(
        title=f"Drops of {sliced.metric} by {sliced.field}",
        heads=(*heads, "n", "n/a", "lost"),
        rows=tuple(
            Row(cells=(drop.attack, short_name(name), drop.arm, *drop_cells(drop))) for name, drop in sliced.drops
        ),
        numbers=("clean", "attacked", "n", "n/a", "lost"),
        note=f"Drops of {sliced.metric}. Intervals are not adjusted for looking at many slices.",
        verbosity=3 if sliced.field == GROUP else 1,
    )


def slice_note(sliced: SlicedDrops) -> Note:
    """Return the note in place of a table that would be too long."""
    return Note(
        text=f"drops of {sliced.metric} by {sliced.field} are left out: they would be more than {MOST_DROPS:,}; "
        "choose fewer attacks, or a field with fewer slices",
        verbosity=1,
    )


def slice_document(sliced: SlicedDrops) -> Iterator[dict[str, object]]:
    """Yield one entry for each slice, attack and arm."""
    for name, drop in sliced.drops:
        yield {
            "field": sliced.field,
            "slice": name,
            **pick(drop, "metric", "attack", "arm", "n", "inapplicable", "lost"),
            **levels_document(drop),
        }


def _shown_fields(inputs: SectionInputs) -> Iterator[tuple[str, Mapping[str, Flags]]]:
    """Yield the title and the slices of each field that the section on slices shows."""
    for by in inputs.slicings:
        labels = flag_field(inputs.slicings.get(by), inputs.samples)
        if labels is not None:
            yield by.title, labels
    groups = flag_groups(inputs.groups)
    if groups is not None:
        yield GROUP, groups


def drop_cells(drop: Drop) -> tuple[str, ...]:
    """Return both levels of a drop, the drop with its interval, and the counts of samples, as texts."""
    difference = with_interval(drop.drop.value, drop.drop.interval, sign=True)
    counts = (f"{drop.n:,}", f"{drop.inapplicable:,}", f"{drop.lost:,}")
    return (level_text(drop.clean), level_text(drop.attacked), difference, *counts)


def level_text(measured: Measured) -> str:
    return "-" if measured.value is None else f"{measured.value:.3f}"


def levels_document(drop: Drop) -> dict[str, object]:
    """Return both levels of a drop, and the drop with the ends of its interval."""
    levels = {"clean": drop.clean.value, "attacked": drop.attacked.value, "drop": drop.drop.value}
    return {**levels, **interval_ends(drop.drop.interval)}


def pick(record: object, *names: str) -> dict[str, object]:
    """Return the named attributes of a record."""
    return {name: getattr(record, name) for name in names}
