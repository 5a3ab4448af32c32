"""A report as Markdown for a pull request: verdicts first, numbers in tables, everything else folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_crucible.records import Row, Run, Table, experiment_name
from pytest_crucible.report.model import Report, build_report
from pytest_crucible.report.printable import AN_ID, printable
from pytest_crucible.report.sections import section_excerpts

# A mark is added to the word, and never replaces it: screen readers and plain text keep the verdict.
MARKS = {"met": "✅", "missed": "❌", "undecided": "❔"}
# Characters of a reply in an excerpt.
A_REPLY = 600
# Characters that GitHub takes in a comment: it refuses a longer one.
A_COMMENT = 65_536
# A part that opens at a click: its title and its lines.
Folded = tuple[str, list[str]]


def render_markdown(run: Run, *, most: int = A_COMMENT) -> str:
    """Return a run as GitHub-flavoured Markdown. If it is too long, parts are left out, the longest folded part first."""
    report = build_report(run)
    parts, left_out = list(_details(report)), list[str]()
    while len(text := "\n".join(_lines(report, parts, left_out)) + "\n") > most and parts:
        longest = max(parts, key=lambda part: sum(map(len, part[1])))
        parts.remove(longest)
        left_out.append(longest[0])
    return text


def _lines(report: Report, parts: Sequence[Folded], left_out: Sequence[str]) -> Iterator[str]:
    mark = f"{MARKS[report.state]} " if report.state else ""
    yield f"## {mark}{plain(report.sentence)}"
    yield ""
    yield plain(report.headline)
    for grid in report.verdicts:
        yield ""
        yield from markdown_table(grid, many=len(report.run.experiments) > 1)
    if not report.verdicts and report.estimates.rows:
        yield ""
        yield from markdown_table(report.estimates, many=True)
    if report.remarks:
        yield ""
        yield from (f"- {plain(remark.strip())}" for remark in report.remarks)
    for part in parts:
        yield from _fold_part(*part)
    yield ""
    if left_out:
        yield f"Left out, to be short enough: {', '.join(left_out)}. Other formats have them."
        yield ""
    yield f"<sub>run {code(report.run.id)}, seed {report.run.seed}</sub>"


def _details(report: Report) -> Iterator[Folded]:
    many = len(report.run.experiments) > 1
    sections = [table for section in report.sections for table in section.tables]
    for table in (replace(report.estimates, title="All estimates"), *sections):
        if table.rows:
            note = ["", plain(table.note)] if table.note else []
            yield table.title, [*markdown_table(table, many=many), *note]
    excerpts: dict[str, list[str]] = {}
    for title, lines in _excerpts(report.run):
        excerpts.setdefault(title, []).extend(lines)
    yield from excerpts.items()
    sentences = [f"- {plain(statement.text)}{_citation(statement.cites)}" for statement in report.methods]
    yield (
        "Methods",
        [*sentences, "", *(f"- {reference.key}: {plain(reference.plain())}" for reference in report.references)],
    )
    yield "Environment", [f"- {plain(name)}: {plain(value)}" for name, value in report.facts.items()]


def markdown_table(grid: Table, *, many: bool) -> Iterator[str]:
    table = grid.with_names() if many else grid
    yield _row([plain(head) for head in table.heads])
    yield _row(["--:" if table.is_number(k) else ":--" for k in range(len(table.heads))])
    for row in table.rows:
        yield _row(_cells(row, first=1 + many))


def _cells(row: Row, first: int) -> Sequence[str]:
    """Return the cells of a row: its subject as code, its verdict with a mark and the reason."""
    # Names are code, so that nothing in them is markup; but a bar ends a cell of a table even within code.
    subjects = [code(cell).replace("|", "\\|") for cell in row.cells[:first]]
    *cells, last = subjects + [plain(cell) for cell in row.cells[first:]]
    mark = f"{MARKS[row.state]} " if row.state else ""
    below = f"<br><sub>{plain(row.below)}</sub>" if row.below else ""
    return [*cells, f"{mark}{last}{below}"]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _fold_part(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _excerpts(run: Run) -> Iterator[tuple[str, list[str]]]:
    """Return the title of a section and the lines of one sample that it shows."""
    many = len(run.experiments) > 1
    for analysis in run.experiments:
        owner = f"{plain(experiment_name(analysis.plan.nodeid))}, " if many else ""
        for title, excerpt in section_excerpts(analysis):
            head = f"{owner}{code(printable(excerpt.sample, AN_ID))}: {plain(excerpt.reason)}"
            texts = (("question", excerpt.input), ("expected", excerpt.expected), ("reply", excerpt.text))
            shown = [line for name, text in texts if text or name == "reply" for line in _named_text(name, text)]
            yield title, [head, "", *shown]


def _named_text(name: str, text: str) -> Iterator[str]:
    yield from (f"{name}:", "", *_fence_text(printable(text, A_REPLY)), "")


def _fence_text(text: str) -> Iterator[str]:
    """Yield a text as a code block, in a fence that nothing in the text can close."""
    fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", text)), default=2))
    yield from (f"{fence}text", text, fence)


def code(text: str) -> str:
    """Return a text as code within a line.

    >>> code("a | b"), code("uses `x`")
    ('`a | b`', '`` uses `x` ``')
    """
    flat = " ".join(printable(text).split())
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", flat)), default=0))
    pad = " " if "`" in flat else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def plain(text: str) -> str:
    r"""Return a text as plain words in Markdown, even if it looks like markup, a mention or a link.

    >>> plain("*bold* <b> a|b @all"), plain("0.810 [0.750, 0.858]"), plain("exact_match")
    ('\\*bold\\* &lt;b> a\\|b @<!-- -->all', '0.810 [0.750, 0.858]', 'exact_match')
    """
    flat = " ".join(printable(text).split())
    marked = re.sub(r"(?<!\w)_|_(?!\w)|[\\`*|~]|(?<=\])\(|(?<=!)\[", lambda match: f"\\{match[0]}", flat)
    escaped = marked.replace("&", "&amp;").replace("<", "&lt;")
    # GitHub makes links of mentions and addresses even where they are escaped: an empty comment parts them.
    return re.sub(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=\bwww)(?=\.)", "<!-- -->", escaped)


def _citation(keys: Sequence[str]) -> str:
    return f" ({', '.join(keys)})" if keys else ""
