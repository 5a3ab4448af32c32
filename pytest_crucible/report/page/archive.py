"""All samples inside the page: columns to filter by, and texts in compressed parts that are opened when they are looked at."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pytest_crucible.records import Exchange, Said
from pytest_crucible.report.chapters import Chapter
from pytest_crucible.report.page.order import in_turns, orders
from pytest_crucible.report.printable import printable

PART = 200
"""Samples whose texts are compressed together."""
A_TEXT = 20_000
"""Characters of a prompt or a reply that are kept in a page; the run store has all."""
ROOM = 30_000_000
"""Letters of packed texts in a page. A larger one opens, too, but is no file to hand on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The samples of one experiment, packed."""

    columns: str
    """Numbers of all samples."""
    parts: tuple[str, ...]
    """Texts, `PART` samples each."""
    note: str
    """Which samples have no texts here, where there are any."""


def archived(chapter: Chapter, *, room: int, seed: int) -> Archive:
    """With the texts of all samples; where these take more than `room`, of those most worth reading and of some drawn by `seed`."""
    every = range(len(chapter.columns.ids))
    parts, kept = _filled(chapter, every, room)
    if len(kept) == len(every):
        return Archive(columns=_columns(chapter, None), parts=parts, note="")
    found = orders(chapter, seed)
    parts, kept = _filled(chapter, in_turns(found), room)
    note = (
        f"{len(kept):,} of {len(every):,} samples have their prompts and replies in this page: {', '.join(found)}. "
        "Of the others there are the numbers."
    )
    return Archive(columns=_columns(chapter, kept), parts=parts, note=note)


def _filled(chapter: Chapter, order: Iterable[int], room: int) -> tuple[tuple[str, ...], list[int]]:
    """Packed texts of the first samples, as many as there is room for but one part at least, and which samples these are."""
    parts: list[str] = []
    kept: list[int] = []
    places = iter(order)
    while some := list(islice(places, PART)):
        part = packed([_exchange(one) for one in chapter.read(some)])
        room -= len(part)
        if room < 0 and parts:
            break
        parts.append(part)
        kept += some
    return tuple(parts), kept


def _columns(chapter: Chapter, kept: Sequence[int] | None) -> str:
    """What the page filters and sorts by, packed."""
    plan, seen = chapter.analysis.plan, chapter.columns
    lower = {facts.name for facts in plan.metrics if facts.direction == "lower"}
    return packed(
        {
            "name": chapter.name,
            "arms": chapter.arms,
            "part": PART,
            "kept": kept,
            "ids": [printable(one, 200) for one in seen.ids],
            "groups": [one and printable(one, 200) for one in seen.groups],
            "became": [[one[0] for one in arm] for arm in seen.became],
            "latency": [_numbers(arm) for arm in seen.latency_s],
            "metrics": [
                {"name": name, "lower": name in lower, "scores": [_numbers(arm) for arm in scores]}
                for name, scores in seen.scores.items()
            ],
            "metric": chapter.metric,
        }
    )


def packed(value: Any) -> str:
    """JSON, compressed, as letters that need no escape. The same bytes for the same value."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(gzip.compress(plain, compresslevel=6, mtime=0)).decode("ascii")


def text_of(value: Any) -> str:
    """A prompt, an expected value or a reply as a reader sees it."""
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False), A_TEXT)


def _exchange(one: Exchange) -> list[Any]:
    return [text_of(one.input), text_of(one.expected), [[_said(said) for said in arm] for arm in one.said]]


def _said(one: Said) -> list[Any]:
    return [one.became, text_of(one.text), text_of(one.detail), _rounded(one.latency_s), one.output_tokens]


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [_rounded(value) for value in values]


def _rounded(value: float | None) -> float | None:
    """To six digits; None where there is none."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short
