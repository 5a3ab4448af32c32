"""The page: a template filled with the report's cells, its pictures, and its samples."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pytest_crucible.report.chapters import Chapter, slice_grid
from pytest_crucible.report.grids import Grid
from pytest_crucible.report.model import Report
from pytest_crucible.report.page.archive import ROOM, Archive, archived
from pytest_crucible.report.page.forest import differences, levels
from pytest_crucible.report.page.pictures import distribution, pairs, waiting
from pytest_crucible.report.page.tables import laid_out
from pytest_crucible.report.page.worth import Told, slowest, worst
from pytest_crucible.report.printable import printable
from pytest_crucible.report.usage import percentile_note

HERE = Path(__file__).parent
MARKS = {"met": "✓", "missed": "✗", "undecided": "?"}
"""Beside the word: colour only repeats it."""
Agreement = tuple[tuple[int, ...], ...]
"""Samples by whether the candidate (rows) and whether the baseline (columns) is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One experiment as the page shows it."""

    chapter: Chapter
    groups: Grid
    pictures: tuple[Markup, ...]
    agreements: tuple[tuple[str, Agreement], ...]
    """Of each judged metric of right and wrong."""
    worst: tuple[Told, ...]
    slowest: tuple[Told, ...]
    archive: Archive


def render_html(report: Report, chapters: Sequence[Chapter]) -> str:
    """A page that needs nothing but itself. `chapters` are read while it is made."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    made = _environment().get_template("page.html.j2")
    return made.render(
        report=report,
        scenes=[_scene(chapter, ROOM // len(chapters), report.run.seed) for chapter in chapters],
        forests=list(differences(report.run)),
        levels=list(levels(report.run)),
        marks=MARKS,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        numbers={one.key: number for number, one in enumerate(report.references, start=1)},
        percentile_note=percentile_note(report.run),
        many=len(report.run.experiments) > 1,
    )


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["laid_out"] = laid_out
    made.filters["printable"] = printable
    made.filters["svg"] = Markup
    return made


def _scene(chapter: Chapter, room: int, seed: int) -> Scene:
    return Scene(
        chapter=chapter,
        groups=slice_grid(chapter),
        pictures=tuple(Markup(picture) for picture in _pictures(chapter) if picture),
        agreements=tuple(_agreements(chapter)),
        worst=worst(chapter),
        slowest=slowest(chapter),
        archive=archived(chapter, room=room, seed=seed),
    )


def _pictures(chapter: Chapter) -> Iterator[str]:
    arms, seen = chapter.arms, chapter.columns
    for metric in chapter.judged:
        if not _is_binary(chapter, metric):
            scores = seen.scores[metric]
            yield distribution(metric, list(zip(arms, scores, strict=True)))
            if len(arms) > 1:
                yield pairs(metric, (arms[0], scores[0]), (arms[1], scores[1]))
    yield waiting(list(zip(arms, seen.latency_s, strict=True)))


def _agreements(chapter: Chapter) -> Iterator[tuple[str, Agreement]]:
    for metric in chapter.judged:
        if len(chapter.arms) > 1 and _is_binary(chapter, metric):
            ours, theirs = chapter.columns.scores[metric][:2]
            both = [(a > 0.5, b > 0.5) for a, b in zip(ours, theirs, strict=True) if not math.isnan(a + b)]
            yield metric, tuple(tuple(both.count((mine, other)) for other in (True, False)) for mine in (True, False))


def _is_binary(chapter: Chapter, metric: str) -> bool:
    """With repeats a sample's mean is no longer right or wrong."""
    return chapter.analysis.plan.epochs == 1 and chapter.analysis.kinds[metric] == "binary"


def _hash(text: str) -> str:
    """As a content security policy names what may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
