"""All samples embedded in the page: columns for filtering, and texts in compressed parts that are unpacked on demand."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pytest_crucible.records import ArmReply, Exchange
from pytest_crucible.records.reasoning import fold_reasoning
from pytest_crucible.report.experiment_page import Chapter
from pytest_crucible.report.page.sample_order import in_turns, orders
from pytest_crucible.report.printable import AN_ID, printable

# Samples whose texts are compressed together.
PART = 200
# Characters of a prompt or a reply that a page has; the run store has all.
A_TEXT = 20_000
# Characters of packed texts in a page. A larger page still opens, but is too large to send to somebody.
ROOM = 30_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The samples of one experiment, packed."""

    columns: str
    """Numbers of all samples."""
    parts: tuple[str, ...]
    """Texts, `PART` samples each."""
    note: str
    """The sentence about samples whose texts are left out, if there are any."""


def archive_samples(chapter: Chapter, *, room: int, seed: int) -> Archive:
    """Return the archive of an experiment, with as many texts as `room` characters hold.

    If not all fit, the worst and slowest samples have their texts, and some drawn by `seed`.
    """
    every = range(len(chapter.columns.ids))
    parts, positions = _fill_parts(chapter, every, room)
    if len(positions) == len(every):
        return Archive(columns=_columns(chapter, None), parts=parts, note="")
    rankings = orders(chapter, seed)
    parts, positions = _fill_parts(chapter, in_turns(rankings), room)
    note = (
        f"{len(positions):,} of {len(every):,} samples have their prompts and replies in this page: {', '.join(rankings)}. "
        "Of the others there are the numbers."
    )
    return Archive(columns=_columns(chapter, positions), parts=parts, note=note)


def _fill_parts(chapter: Chapter, order: Iterable[int], room: int) -> tuple[tuple[str, ...], list[int]]:
    """Return the packed texts of the first samples, and the positions of these samples.

    There are as many as there is room for, but at least one part.
    """
    parts: list[str] = []
    positions: list[int] = []
    places = iter(order)
    while some := list(islice(places, PART)):
        part = pack_json([_exchange(exchange) for exchange in chapter.read(some)])
        room -= len(part)
        if room < 0 and parts:
            break
        parts.append(part)
        positions += some
    return tuple(parts), positions


def _columns(chapter: Chapter, positions: Sequence[int] | None) -> str:
    """Return the columns that the page filters and sorts by, packed."""
    plan, columns = chapter.analysis.plan, chapter.columns
    lower = {facts.name for facts in plan.facts.values() if facts.direction == "lower"}
    return pack_json(
        {
            "name": chapter.name,
            "arms": chapter.arms,
            "part": PART,
            "kept": positions,
            "ids": [printable(entry, AN_ID) for entry in columns.ids],
            "groups": [entry and printable(entry, AN_ID) for entry in columns.groups],
            "became": [[entry[0] for entry in arm] for arm in columns.states],
            "latency": [_numbers(arm) for arm in columns.latency_s],
            "metrics": [
                {"name": name, "lower": name in lower, "scores": [_numbers(arm) for arm in scores]}
                for name, scores in columns.scores.items()
            ],
            "metric": chapter.metric,
        }
    )


def pack_json(value: Any) -> str:
    """Return a value as compressed JSON in letters that need no escape."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    # gzip writes the time into its header: without a fixed one, equal values would give different bytes.
    return base64.b64encode(gzip.compress(plain, compresslevel=6, mtime=0)).decode("ascii")


def text_of(value: Any) -> str:
    """Return a prompt, an expected value or a reply as a reader sees it."""
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False), A_TEXT)


def _exchange(exchange: Exchange) -> list[Any]:
    return [
        text_of(exchange.input),
        text_of(exchange.expected),
        [[_reply_fields(reply) for reply in arm] for arm in exchange.replies],
    ]


def _reply_fields(reply: ArmReply) -> list[Any]:
    return [
        reply.state,
        text_of(fold_reasoning(reply.text)),
        text_of(reply.detail),
        _round_number(reply.latency_s),
        reply.output_tokens,
    ]


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [_round_number(value) for value in values]


def _round_number(value: float | None) -> float | None:
    """Return a number rounded to six digits; None if it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short
