"""The HTML page: templates filled with the report's cells, its pictures and its samples."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Exchange, Row, State, Table, View, experiment_name
from pytest_crucible.records.datasets import question_text
from pytest_crucible.records.reasoning import fold_reasoning
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.views import MarkedPart
from pytest_crucible.report.diagrams import draw_diagram
from pytest_crucible.report.model import Chapter, Report
from pytest_crucible.report.pictures import (
    chart_forest,
    differences,
    distribution,
    draw_curves,
    draw_lines,
    levels,
    pairs,
    waiting,
)
from pytest_crucible.report.printable import AN_ID, LONGEST_ESCAPE, printable
from pytest_crucible.report.sections import section_excerpts, worst_states
from pytest_crucible.report.time_bars import draw_time_bars
from pytest_crucible.report.verdicts import DIGIT, POINT, align_estimates, typeset
from pytest_crucible.stats.number_format import seconds

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
    replies = [
        [
            (reply.state, text_of(fold_reasoning(reply.text)), text_of(reply.detail), _round_number(reply.latency_s),
             reply.output_tokens)
            for reply in arm
        ]
        for arm in exchange.replies
    ]  # fmt: skip
    return [text_of(exchange.input), text_of(exchange.expected), replies]


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [_round_number(value) for value in values]


def _round_number(value: float | None) -> float | None:
    """Return a number rounded to six digits; None if it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


Order = npt.NDArray[np.int64]


def orders(chapter: Chapter, seed: int) -> dict[str, Order]:
    """Return all positions in each order, by the name of what comes first. Unknown values come last."""
    rankings = {"the worst": _worst(chapter), "the slowest": _slowest(chapter)}
    drawn = np.random.default_rng(seed).permutation(len(chapter.columns.ids))
    return {**{name: order for name, order in rankings.items() if order is not None}, f"a draw with seed {seed}": drawn}


def in_turns(orders: dict[str, Order]) -> Iterator[int]:
    """Yield the first position of each order, then the second of each; every position once."""
    placed = set()
    for places in zip(*(order.tolist() for order in orders.values()), strict=True):
        for place in places:
            if place not in placed:
                placed.add(place)
                yield place


def _worst(chapter: Chapter) -> Order | None:
    """Furthest behind the first baseline, and lowest among those that are equally far."""
    if chapter.metric is None:
        return None
    sign = 1.0 if chapter.facts[chapter.metric].direction == "higher" else -1.0
    scores = [sign * np.asarray(arm, dtype=float) for arm in chapter.columns.scores[chapter.metric]]
    behind = scores[0] - scores[1] if len(scores) > 1 else np.zeros_like(scores[0])
    # lexsort takes its first key last.
    return np.lexsort((scores[0], behind))


def _slowest(chapter: Chapter) -> Order | None:
    took = np.asarray(chapter.columns.latency_s[0], dtype=float)
    return None if np.isnan(took).all() else np.argsort(-took, kind="stable")


# Panels of each kind: a reader opens a few, and the archive has all samples.
HOW_MANY = 5
# Characters of a text in a panel; the sample's row in the archive has more.
A_REPLY = 4_000
# Characters of an input beside the id of its sample, about a line.
AN_EXCERPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePanel:
    """One sample: the reason it is shown, its input, and the first reply of each arm."""

    position: int
    sample: str
    why: str
    input: str
    expected: str
    replies: tuple[tuple[str, str], ...]
    """Arm, and its reply or the state of its sample."""
    excerpt: str
    """The beginning of its question, on one line."""


def excerpt_panels(chapter: Chapter) -> dict[str, tuple[SamplePanel, ...]]:
    """Return the samples that sections show, by the title of the section."""
    place = {name: k for k, name in enumerate(chapter.columns.ids)}
    panels: dict[str, tuple[SamplePanel, ...]] = {}
    for title, excerpt in section_excerpts(chapter.analysis):
        if excerpt.sample in place:
            panels[title] = (*panels.get(title, ()), _panel(chapter, place[excerpt.sample], excerpt.reason))
    return panels


def slowest(chapter: Chapter) -> tuple[SamplePanel, ...]:
    """Return the samples for which the candidate's answer took longest."""
    took = np.nan_to_num(np.asarray(chapter.columns.latency_s[0], dtype=float), nan=-1.0)
    order = np.argsort(-took, kind="stable")[:HOW_MANY]
    return tuple(_panel(chapter, int(k), f"answered in {seconds(float(took[k]))}") for k in order if took[k] > 0)


def _panel(chapter: Chapter, position: int, why: str) -> SamplePanel:
    [exchange] = chapter.read([position])
    return SamplePanel(
        position=position,
        sample=printable(chapter.columns.ids[position], AN_ID),
        why=why,
        input=_short(text_of(exchange.input)),
        expected=_short(text_of(exchange.expected)),
        replies=tuple(zip(chapter.arms, _answers(exchange), strict=True)),
        excerpt=excerpt_line(question_text(exchange.input)),
    )


def _answers(exchange: Exchange) -> Sequence[str]:
    return [
        _short(text_of(fold_reasoning(arm[0].text) or f"({arm[0].state}: {arm[0].detail})")) if arm else "(no reply)"
        for arm in exchange.replies
    ]


def excerpt_line(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: 10 * AN_EXCERPT].split())
    return printable(line if len(line) <= AN_EXCERPT else f"{line[: AN_EXCERPT - 1]}\u2026")


def _short(text: str) -> str:
    return printable(text, A_REPLY)


HERE = Path(__file__).parent / "page"
# A mark is added to the word, and colour only repeats it.
MARKS = {"met": "✓", "missed": "✗", "undecided": "?"}
# Characters of a cell of a table.
A_CELL = 300
# Experiments up to which the samples of all are open.
FEW = 3
# Samples by whether the candidate (rows) and whether the baseline (columns) is right.
Agreement = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One experiment as the page shows it."""

    chapter: Chapter
    state: State | None
    """Its worst verdict."""
    pictures: tuple[Markup, ...]
    agreements: tuple[tuple[str, Agreement], ...]
    """(name, agreement of the arms) for each binary metric that a target or comparison names."""
    excerpts: tuple[tuple[str, tuple[SamplePanel, ...]], ...]
    """Title of a section, and the samples that it shows."""
    slowest: tuple[SamplePanel, ...]


def render_html(report: Report, chapters: Sequence[Chapter]) -> str:
    """Return the report as a self-contained page. `chapters` are read while it is made."""
    style, explorer, script = (
        (HERE / name).read_text(encoding="utf-8") for name in ("page.css", "explorer.css", "page.js")
    )
    style += explorer
    template = page_environment().get_template("page.html.j2")
    archives = [archive_samples(chapter, room=ROOM // len(chapters), seed=report.run.seed) for chapter in chapters]
    return template.render(
        **page_values(report, chapters),
        archives=archives,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def page_values(report: Report, chapters: Sequence[Chapter]) -> dict[str, Any]:
    """Return what the parts of a report in parts.html.j2 are filled with."""
    states = worst_states(report.run)
    return {
        "report": report,
        "scenes": [make_scene(chapter, states.get(chapter.analysis.plan.nodeid)) for chapter in chapters],
        "few": FEW,
        "forests": list(differences(report.run)),
        "levels": list(levels(report.run)),
        "marks": MARKS,
        "numbers": {reference.key: number for number, reference in enumerate(report.references, start=1)},
        "many": len(report.run.experiments) > 1,
    }


def make_scene(chapter: Chapter, state: State | None) -> Scene:
    """Return an experiment as a page shows it; `state` is its worst verdict."""
    return Scene(
        chapter=chapter,
        state=state,
        pictures=tuple(Markup(picture) for picture in _pictures(chapter) if picture),
        agreements=tuple(_agreements(chapter)),
        excerpts=tuple(excerpt_panels(chapter).items()),
        slowest=slowest(chapter),
    )


def render_view(view: View) -> str:
    """Return a page of a view that belongs to no run."""
    return render_page(HERE / "view.html.j2", view=view, marks=MARKS, many=False)


def render_page(template: Path, *, more_style: str = "", **values: Any) -> str:
    """Return a page of a template with the style of reports, and more. The template may use those of reports."""
    style = (HERE / "page.css").read_text(encoding="utf-8") + more_style
    page = page_environment(template.parent).get_template(template.name)
    return page.render(style=Markup(style), style_hash=_hash(style), **values)


def page_environment(folder: Path = HERE, hide: Callable[[str], str] = str) -> Environment:
    """Return the templates in a folder and those of reports. All that they show is text, but for what the package draws.

    `hide` removes keys from each text, before it is cut or escaped.
    """
    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: _show_text(value, hide),
    )
    environment.filters["laid_out"] = laid_out
    environment.filters["printable"] = lambda text, *most: printable(hide(text), *most)
    environment.filters["blanks"] = blanks
    environment.filters["shade_class"] = shade_class
    environment.filters["svg"] = lambda drawn: Markup(hide(drawn))
    environment.filters.update(
        {name: lambda facts, draw=draw: draw(redact(facts, hide)) for name, draw in _DRAWINGS.items()}
    )
    return environment


_DRAWINGS: Mapping[str, Callable[[Any], Any]] = {
    "forest_of": chart_forest,
    "drawn_curves": draw_curves,
    "drawn_lines": draw_lines,
    "drawn_bars": draw_time_bars,
    "drawn_diagram": draw_diagram,
}


def _show_text(value: Any, hide: Callable[[str], str]) -> Any:
    """Return what a template shows of a value: of any text but markup, control characters as escapes."""
    return printable(hide(value), len(value) * LONGEST_ESCAPE) if type(value) is str else value


def _pictures(chapter: Chapter) -> Iterator[str]:
    arms, columns = chapter.arms, chapter.columns
    for metric in chapter.judged:
        if not _is_binary(chapter, metric):
            scores = columns.scores[metric]
            yield distribution(metric, list(zip(arms, scores, strict=True)))
            if len(arms) > 1:
                yield pairs(metric, (arms[0], scores[0]), (arms[1], scores[1]))
    yield waiting(list(zip(arms, columns.latency_s, strict=True)))


def _agreements(chapter: Chapter) -> Iterator[tuple[str, Agreement]]:
    for metric in chapter.judged:
        if len(chapter.arms) > 1 and _is_binary(chapter, metric):
            ours, theirs = chapter.columns.scores[metric][:2]
            # Where lower is better, the metric counts a fault: a yes is wrong.
            right = chapter.facts[metric].direction == "higher"
            both = [
                ((a > 0.5) is right, (b > 0.5) is right)
                for a, b in zip(ours, theirs, strict=True)
                if not math.isnan(a + b)
            ]
            yield metric, tuple(tuple(both.count((mine, other)) for other in (True, False)) for mine in (True, False))


def _is_binary(chapter: Chapter, metric: str) -> bool:
    # With repeats a sample's mean may lie between right and wrong.
    return chapter.analysis.plan.draws(0).size == 1 and chapter.analysis.kinds[metric] == "binary"


def _hash(text: str) -> str:
    """Return the hash by which a content security policy allows a style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a page's table. `kind` decides its layout: word, number, estimate or verdict."""

    kind: str
    head: str
    text: str
    interval: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Rows under one name, or under none."""

    name: str
    rows: tuple[tuple[Row, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table as a page sets it."""

    heads: tuple[tuple[str, str], ...]
    """Kind and text of each column's head."""
    bodies: tuple[Body, ...]


def laid_out(grid: Table, many: bool = False) -> Layout:
    """Return the table's cells by column; with several experiments the rows of each are under its name."""
    columns = [_column(grid, k) for k in range(len(grid.heads))]
    heads = tuple(
        (column[0].kind if column else "word", head) for column, head in zip(columns, grid.heads, strict=True)
    )
    rows = tuple(zip(grid.rows, zip(*columns, strict=True), strict=True))
    return Layout(heads=heads, bodies=tuple(_bodies(rows)) if many else (Body(name="", rows=rows),))


# Shades that a reader tells apart on a screen and in print.
SHADES = 5


def shade_class(part: MarkedPart) -> str:
    """Return the class of a part's shade, such as `more3`; a style of its own would be blocked by the page's policy.

    >>> [shade_class(MarkedPart(text="a", weight=weight)) for weight in (0.5, -1.0, 0.0)]
    ['more3', 'less5', '']
    """
    depth = math.ceil(min(abs(part.weight), 1.0) * SHADES)
    return f"{'more' if part.weight > 0 else 'less'}{depth}" if depth else ""


def blanks(text: str) -> Markup:
    """Return a text with its aligning blanks in elements of their own."""
    # Style sheets of a page too narrow for columns hide these elements. The text may be a name that ends like an interval.
    return Markup(
        re.sub(f"[{DIGIT}{POINT}]+", r'<span class="blank">\g<0></span>', str(escape(printable(text, A_CELL))))
    )


def _bodies(rows: tuple[tuple[Row, tuple[Cell, ...]], ...]) -> Iterator[Body]:
    for nodeid, of_one in groupby(rows, key=lambda pair: pair[0].experiment):
        yield Body(name=experiment_name(nodeid), rows=tuple(of_one))


def _column(grid: Table, k: int) -> list[Cell]:
    head, cells = grid.heads[k], [row.cells[k] for row in grid.rows]
    if head == "verdict":
        return [Cell(kind="verdict", head=head, text=cell) for cell in cells]
    if grid.is_number(k):
        return [Cell(kind="number", head=head, text=typeset(cell)) for cell in cells]
    if any(cell.endswith("]") for cell in cells):
        return [
            Cell(kind="estimate", head=head, text=text, interval=interval) for text, interval in align_estimates(cells)
        ]
    return [Cell(kind="word", head=head, text=printable(cell, A_CELL)) for cell in cells]
