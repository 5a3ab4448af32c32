"""The samples most worth reading, with what was asked and what each arm said, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.records import Exchange
from pytest_crucible.report.chapters import Chapter
from pytest_crucible.report.page.archive import text_of
from pytest_crucible.report.printable import printable
from pytest_crucible.report.usage import seconds

HOW_MANY = 5
A_REPLY = 4_000
"""Characters that are shown at once; a sample's own place in the page has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One sample in words: why it is here, what was asked, and each arm's first answer."""

    sample: str
    why: str
    asked: str
    expected: str
    said: tuple[tuple[str, str], ...]
    """Arm, and what it said or what became of it."""


def worst(chapter: Chapter) -> tuple[Told, ...]:
    """Where the candidate fell furthest behind the first baseline, or simply did worst."""
    place = {name: k for k, name in enumerate(chapter.columns.ids)}
    return tuple(
        _told(chapter, place[one.sample], f"{one.metric} = {one.value:g}"
              + ("" if one.baseline_value is None else f", {chapter.arms[1]} {one.baseline_value:g}"))
        for one in chapter.analysis.worst
        if one.sample in place
    )  # fmt: skip


def slowest(chapter: Chapter) -> tuple[Told, ...]:
    """Where the candidate's answer took longest."""
    took = np.nan_to_num(np.asarray(chapter.columns.latency_s[0], dtype=float), nan=-1.0)
    order = np.argsort(-took, kind="stable")[:HOW_MANY]
    return tuple(_told(chapter, int(k), f"answered in {seconds(float(took[k]))}") for k in order if took[k] > 0)


def _told(chapter: Chapter, position: int, why: str) -> Told:
    [one] = chapter.read([position])
    return Told(
        sample=printable(chapter.columns.ids[position], 200),
        why=why,
        asked=_short(text_of(one.input)),
        expected=_short(text_of(one.expected)),
        said=tuple(zip(chapter.arms, _answers(one), strict=True)),
    )


def _answers(one: Exchange) -> Sequence[str]:
    return [
        _short(text_of(arm[0].text or f"({arm[0].became}: {arm[0].detail})")) if arm else "(not asked)"
        for arm in one.said
    ]


def _short(text: str) -> str:
    return printable(text, A_REPLY)
