"""The table of drops that people's labels of some replies correct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_crucible.analyse.labelled_drops import Corrected, Uncorrected
from pytest_crucible.records import Note, Row, Table
from pytest_crucible.records.statistics import interval_ends
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
