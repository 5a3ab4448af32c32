"""The table of drops that people's labels of some replies correct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_crucible.analyse.scores import Flags
from pytest_crucible.analyse.slices import GROUP, flag_field, flag_groups
from pytest_crucible.features.robustness.drops import Drop, VariantData, attack_variants, compute_slice_drops
from pytest_crucible.features.robustness.labelled_drops import Corrected, Uncorrected
from pytest_crucible.records import Note, Row, Table
from pytest_crucible.records.datasets import short_name
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.number_format import with_interval

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
    return {
        **{name: getattr(entry, name) for name in names},
        "attack": entry.attack or None,
        **interval_ends(entry.interval),
    }


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
        rows=tuple(Row(cells=_sliced_cells(name, drop)) for name, drop in sliced.drops),
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
            **{key: getattr(drop, key) for key in ("metric", "attack", "arm", "n", "inapplicable", "lost")},
            "clean": drop.clean.value,
            "attacked": drop.attacked.value,
            "drop": drop.drop.value,
            **interval_ends(drop.drop.interval),
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


def _sliced_cells(name: str, drop: Drop) -> tuple[str, ...]:
    levels = (_level(drop.clean.value), _level(drop.attacked.value))
    difference = with_interval(drop.drop.value, drop.drop.interval, sign=True)
    counts = (f"{drop.n:,}", f"{drop.inapplicable:,}", f"{drop.lost:,}")
    return (drop.attack, short_name(name), drop.arm, *levels, difference, *counts)


def _level(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
