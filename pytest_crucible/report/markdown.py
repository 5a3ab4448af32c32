"""A report as Markdown, fit for a pull request: what was ruled first, numbers in tables, everything else folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_crucible.records import Run
from pytest_crucible.report.grids import Grid, Row, named
from pytest_crucible.report.model import Report, report_of
from pytest_crucible.report.printable import printable

MARKS = {"met": "✅", "missed": "❌", "undecided": "❔"}
"""Beside the word, never instead of it."""
A_REPLY = 600
"""Characters of a reply that are shown."""
A_COMMENT = 65_536
"""Characters that GitHub takes in a comment: a longer one it refuses."""
Folded = tuple[str, list[str]]
"""A part that opens at a click: its title and its lines."""


def render_markdown(run: Run, *, most: int = A_COMMENT) -> str:
    """A run as GitHub-flavoured Markdown. What would make it too long is left out, the longest folded part first."""
    report = report_of(run)
    parts, left_out = list(_details(report)), list[str]()
    while len(text := "\n".join(_lines(report, parts, left_out)) + "\n") > most and parts:
        longest = max(parts, key=lambda part: sum(map(len, part[1])))
        parts.remove(longest)
        left_out.append(longest[0])
    return text


def _lines(report: Report, parts: Sequence[Folded], left_out: Sequence[str]) -> Iterator[str]:
    mark = f"{MARKS[report.state]} " if report.state else ""
    yield f"## {mark}{plain(report.headline)}"
    for grid in report.verdicts:
        yield ""
        yield from _table(grid, many=len(report.run.experiments) > 1)
    if not report.verdicts and report.estimates.rows:
        yield ""
        yield from _table(report.estimates, many=True)
    if report.remarks:
        yield ""
        yield from (f"- {plain(remark.strip())}" for remark in report.remarks)
    for part in parts:
        yield from _folded(*part)
    yield ""
    if left_out:
        yield f"Left out, to be short enough: {', '.join(left_out)}. Other formats have them."
        yield ""
    yield f"<sub>run {code(report.run.id)}, seed {report.run.seed}</sub>"


def _details(report: Report) -> Iterator[Folded]:
    grids = {
        "All estimates": report.estimates,
        "Findings of the antagonist": report.findings,
        "Findings and gold flags": report.agreement,
        "What it took": report.usage,
        "How long it took": report.percentiles,
    }
    for title, grid in grids.items():
        if grid.rows:
            yield title, list(_table(grid, many=len(report.run.experiments) > 1))
    worst = list(_worst(report.run))
    if worst:
        yield "Worst samples", worst
    said = [f"- {plain(one.text)}{_cited(one.cites)}" for one in report.methods]
    yield "Methods", [*said, "", *(f"- {one.key}: {plain(one.plain())}" for one in report.references)]
    yield "Environment", [f"- {plain(name)}: {plain(value)}" for name, value in report.facts.items()]


def _table(grid: Grid, *, many: bool) -> Iterator[str]:
    shown = grid.with_names() if many else grid
    yield _row([plain(head) for head in shown.heads])
    yield _row(["--:" if shown.is_number(k) else ":--" for k in range(len(shown.heads))])
    for row in shown.rows:
        yield _row(_cells(row, first=1 + many))


def _cells(row: Row, first: int) -> Sequence[str]:
    """What a row is about is code, so that nothing in a name is markup; what was ruled has its mark and its reason."""
    subjects = [code(cell).replace("|", "\\|") for cell in row.cells[:first]]  # a table ends a cell within code, too
    *cells, last = subjects + [plain(cell) for cell in row.cells[first:]]
    mark = f"{MARKS[row.state]} " if row.state else ""
    below = f"<br><sub>{plain(row.below)}</sub>" if row.below else ""
    return [*cells, f"{mark}{last}{below}"]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _worst(run: Run) -> Iterator[str]:
    many = len(run.experiments) > 1
    for analysis in run.experiments:
        whose = f"{plain(named(analysis.plan.nodeid))}, " if many else ""
        for one in analysis.worst:
            was = "" if one.baseline_value is None else f", baseline {one.baseline_value:g}"
            yield f"{whose}{code(one.sample)}: {plain(one.metric)} = {one.value:g}{was}"
            yield from ("", *_fenced(printable(one.reply, A_REPLY)), "")


def _fenced(text: str) -> Iterator[str]:
    """As code, in a fence that nothing in the text can close."""
    fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", text)), default=2))
    yield from (f"{fence}text", text, fence)


def code(text: str) -> str:
    """As code within a line.

    >>> code("a | b"), code("uses `x`")
    ('`a | b`', '`` uses `x` ``')
    """
    flat = " ".join(printable(text).split())
    ticks = "`" * (1 + max((len(found) for found in re.findall("`+", flat)), default=0))
    pad = " " if "`" in flat else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def plain(text: str) -> str:
    r"""As the words that they are, whatever markup, mention or link they look like.

    An empty comment parts what GitHub would make a link of also where it is escaped.

    >>> plain("*bold* <b> a|b @all"), plain("0.810 [0.750, 0.858]"), plain("exact_match")
    ('\\*bold\\* &lt;b> a\\|b @<!-- -->all', '0.810 [0.750, 0.858]', 'exact_match')
    """
    flat = " ".join(printable(text).split())
    marked = re.sub(r"(?<!\w)_|_(?!\w)|[\\`*|~]|(?<=\])\(|(?<=!)\[", lambda found: f"\\{found[0]}", flat)
    escaped = marked.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=\bwww)(?=\.)", "<!-- -->", escaped)


def _cited(keys: Sequence[str]) -> str:
    return f" ({', '.join(keys)})" if keys else ""
