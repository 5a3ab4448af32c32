"""Markdown: a report for a pull request; and views that belong to no run as Markdown, HTML, JSON or terminal lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_crucible.records import Row, Run, Table, View, experiment_name
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.secret_settings import process_hider
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.model import Report, build_report
from pytest_crucible.report.printable import AN_ID, printable, table_lines
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
    for title, lines in parts:
        yield from ("", f"<details><summary>{title}</summary>", "", *lines, "", "</details>")
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
    cites = [f" ({', '.join(statement.cites)})" if statement.cites else "" for statement in report.methods]
    sentences = [f"- {plain(method.text)}{keys}" for method, keys in zip(report.methods, cites, strict=True)]
    references = [f"- {reference.key}: {plain(reference.plain())}" for reference in report.references]
    yield "Methods", [*sentences, "", *references]
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


def _excerpts(run: Run) -> Iterator[tuple[str, list[str]]]:
    many = len(run.experiments) > 1
    for analysis in run.experiments:
        owner = f"{plain(experiment_name(analysis.plan.nodeid))}, " if many else ""
        for title, excerpt in section_excerpts(analysis):
            head = f"{owner}{code(printable(excerpt.sample, AN_ID))}: {plain(excerpt.reason)}"
            texts = (("question", excerpt.input), ("expected", excerpt.expected), ("reply", excerpt.text))
            quoted = [line for name, text in texts if text or name == "reply" for line in quoted_text(name, text)]
            yield title, [head, "", *quoted]


def quoted_text(name: str, text: str, most: int = A_REPLY) -> Iterator[str]:
    """Yield a text as a code block below its name, in a fence that nothing in the text can close."""
    block = printable(text, most)
    fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", block)), default=2))
    yield from (f"{name}:", "", f"{fence}text", block, fence, "")


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


FORMATS = (".html", ".md", ".json")


def write_view(view: View, path: Path) -> None:
    """Write a view to a file, its format by the ending. Raises SpecError for another ending or a file that cannot be written."""
    check_format(path)
    # Imported here: Markdown alone needs no templates.
    from pytest_crucible.report.html import render_view

    # Its texts are those of files and arguments. Before it is laid out: escaped, a key is not recognised.
    clean = redact(view, process_hider())
    text = {".html": render_view, ".md": _render_markdown, ".json": _render_json}[path.suffix](clean)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(f"-o {path} cannot be written: {error.strerror or error}") from error


def check_format(path: Path) -> None:
    """Raise SpecError for a file whose ending is not that of a format."""
    if path.suffix not in FORMATS:
        raise SpecError(f"-o {path} has an unknown format: its name must end in one of {', '.join(FORMATS)}")


def view_lines(view: View) -> list[str]:
    """Return a view as terminal lines."""
    lines = [printable(note.text) for note in view.notes]
    for table in view.tables:
        if table.rows:
            lines += ["", table.title, *table_lines(table), *filter(None, [table.note])]
    return lines[1:] if lines and not lines[0] else lines


def _render_markdown(view: View) -> str:
    lines = [f"# {plain(view.title)}", "", *_list_lines([note.text for note in view.notes])]
    for table in view.tables:
        if table.rows:
            lines += [f"## {plain(table.title)}", "", *markdown_table(table, many=False), ""]
            lines += [plain(table.note), ""] if table.note else []
    return "\n".join([*lines, *_list_lines([statement.text for statement in view.methods])])


def _list_lines(texts: Sequence[str]) -> list[str]:
    return [*(f"- {plain(text)}" for text in texts), ""] if texts else []


def _render_json(view: View) -> str:
    return json.dumps(to_plain(view.document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# GitHub takes 1 MiB from a step and shows nothing of a longer summary; the rest is room for what others write.
A_SUMMARY = 1_000_000


def add_summary(run: Run, environment: Mapping[str, str]) -> str:
    """Append the report to the job's summary, if there is one.

    Returns a sentence when that could not be done, else an empty text.
    """
    path = environment.get("GITHUB_STEP_SUMMARY")
    if not path:
        return ""
    text = render_markdown(run, most=A_SUMMARY).encode("utf-8", "backslashreplace")
    if len(text) > A_SUMMARY:
        return f"the job's summary was not written: {len(text):,} bytes are more than GitHub shows"
    try:
        with Path(path).open("ab") as file:
            file.write(text)
    except OSError as error:
        return f"the job's summary was not written: {error}"
    return ""
