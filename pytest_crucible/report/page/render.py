"""The page: a template filled with the report's cells, its pictures, and its samples."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pytest_crucible.report.chapters import Chapter, slice_grid
from pytest_crucible.report.grids import Grid
from pytest_crucible.report.model import Report
from pytest_crucible.report.page import archive
from pytest_crucible.report.page.forest import differences, levels
from pytest_crucible.report.page.pictures import distribution, pairs, waiting
from pytest_crucible.report.page.tables import laid_out
from pytest_crucible.report.page.worth import Told, slowest, worst
from pytest_crucible.report.printable import printable
from pytest_crucible.report.usage import percentile_note

HERE = Path(__file__).parent
MARKS = {"met": "✓", "missed": "✗", "undecided": "?"}
"""Beside the word: colour only repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One experiment as the page shows it."""

    chapter: Chapter
    groups: Grid
    pictures: tuple[Markup, ...]
    agreement: tuple[tuple[int, ...], ...]
    """For a metric of right and wrong: samples by whether the candidate and whether the baseline is right."""
    worst: tuple[Told, ...]
    slowest: tuple[Told, ...]


def render_html(report: Report, chapters: Sequence[Chapter]) -> str:
    """A page that needs nothing but itself. `chapters` are read while it is made."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    made = _environment().get_template("page.html.j2")
    return made.render(
        report=report,
        scenes=[_scene(chapter) for chapter in chapters],
        forests=list(differences(report.run)),
        levels=list(levels(report.run)),
        marks=MARKS,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        columns=archive.columns,
        parts=archive.parts,
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


def _scene(chapter: Chapter) -> Scene:
    return Scene(
        chapter=chapter,
        groups=slice_grid(chapter),
        pictures=tuple(Markup(picture) for picture in _pictures(chapter) if picture),
        agreement=_agreement(chapter),
        worst=worst(chapter),
        slowest=slowest(chapter),
    )


def _pictures(chapter: Chapter) -> Iterator[str]:
    arms, seen = chapter.arms, chapter.columns
    if chapter.metric is not None and not _is_binary(chapter):
        scores = seen.scores[chapter.metric]
        yield distribution(chapter.metric, list(zip(arms, scores, strict=True)))
        if len(arms) > 1:
            yield pairs(chapter.metric, (arms[0], scores[0]), (arms[1], scores[1]))
    yield waiting(list(zip(arms, seen.latency_s, strict=True)))


def _agreement(chapter: Chapter) -> tuple[tuple[int, ...], ...]:
    if chapter.metric is None or not _is_binary(chapter) or len(chapter.arms) < 2:
        return ()
    ours, theirs = chapter.columns.scores[chapter.metric][:2]
    both = [(a > 0.5, b > 0.5) for a, b in zip(ours, theirs, strict=True) if a == a and b == b]
    return tuple(tuple(both.count((mine, other)) for other in (True, False)) for mine in (True, False))


def _is_binary(chapter: Chapter) -> bool:
    """With repeats a sample's mean is no longer right or wrong."""
    plan = chapter.analysis.plan
    return plan.epochs == 1 and chapter.analysis.kinds.get(chapter.metric or "") == "binary"


def _hash(text: str) -> str:
    """As a content security policy names what may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
