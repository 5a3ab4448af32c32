"""Writes a view that belongs to no run, such as the profile of a dataset, as HTML, Markdown, JSON or terminal lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

from pytest_crucible.records import Table, View
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.process_secrets import process_hider
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.markdown import markdown_table, plain
from pytest_crucible.report.page.render import render_view
from pytest_crucible.report.printable import printable, printable_cell

FORMATS = (".html", ".md", ".json")


def write_view(view: View, path: Path) -> None:
    """Write a view to a file, its format by the ending. Raises SpecError for another ending or a file that cannot be written."""
    check_format(path)
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
            lines += ["", *_table_lines(table)]
    return lines[1:] if lines and not lines[0] else lines


def _table_lines(table: Table) -> Iterator[str]:
    yield table.title
    align = ["right" if head in table.numbers else "left" for head in table.heads]
    rows = [[printable_cell(cell) for cell in row.cells] for row in table.rows]
    yield from tabulate(rows, headers=table.heads, tablefmt="plain", colalign=align, disable_numparse=True).splitlines()
    if table.note:
        yield table.note


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
