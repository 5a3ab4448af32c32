"""Shared parts of results as text: interval ends, cluster counts, and an HTML table for notebooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape

from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number

Rows = Iterable[tuple[str, str]]


def log_ratio(value: float | None) -> float | None:
    """Return the logarithm; -inf at 0."""
    if value is None:
        return None
    return math.log(value) if value > 0 else -math.inf


def table(title: str, rows: Rows, sentence: str) -> str:
    """Return HTML for a notebook: a caption, a row for each fact, and the sentence beneath."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table><p>{escape(sentence)}</p>"


def interval_ends(interval: Interval, show: Callable[[float, Interval], str] = number) -> str:
    low, high = (show(end, interval) for end in (interval.low, interval.high))
    if math.isinf(interval.low):
        return f"up to {high}"
    return f"from {low} upwards" if math.isinf(interval.high) else f"from {low} to {high}"


def in_clusters(clusters: int | None) -> str:
    return "" if clusters is None else f" in {clusters:,} cluster{'s' * (clusters != 1)}"


def cluster_suffix(clusters: int | None) -> str:
    return "" if clusters is None else f" clusters={clusters:,}"


def note_rows(note: str) -> Rows:
    if note:
        yield "note", note
