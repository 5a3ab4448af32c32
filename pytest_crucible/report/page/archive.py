"""All samples inside the page: columns to filter by, and texts in compressed parts that are opened when they are looked at."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.records import Exchange, Said
from pytest_crucible.report.chapters import Chapter
from pytest_crucible.report.printable import printable

PART = 200
"""Samples whose texts are compressed together."""
A_TEXT = 20_000
"""Characters of a prompt or a reply that are kept in a page; the run store has all."""


def columns(chapter: Chapter) -> str:
    """What the page filters and sorts by, packed."""
    plan, seen = chapter.analysis.plan, chapter.columns
    lower = {facts.name for facts in plan.metrics if facts.direction == "lower"}
    return packed(
        {
            "name": chapter.name,
            "arms": chapter.arms,
            "part": PART,
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


def parts(chapter: Chapter) -> Iterator[str]:
    """The texts of all samples, packed a part at a time."""
    for start in range(0, len(chapter.columns.ids), PART):
        yield packed([_exchange(one) for one in chapter.read(start, start + PART)])


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
