"""Writes graphs and timelines to files; the ending of a file's name decides its format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_crucible.records import ExportTable
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import load_object
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.secret_settings import process_hider
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.printable import printable_json
from pytest_crucible.runs.report_files import write_whole

if TYPE_CHECKING:
    from pytest_crucible.features.provenance.graph import Graph
    from pytest_crucible.features.provenance.timeline import Timeline

Render = Callable[[Any, str], str | bytes]
"""Returns the content of a file from a graph or timelines, and the style of a diagram."""
STYLES = ("flowchart", "sequence", "timeline", "graph")
MERMAID = ".mmd"
_SURROGATE = re.compile("[\ud800-\udfff]")
_FOLDER = "pytest_crucible.features.provenance.exports"


def _diagram(reference: str) -> Render:
    return lambda content, style: load_object(f"{_FOLDER}.{reference}")(content, style)


def _page(reference: str) -> Render:
    return lambda content, style: load_object(f"{_FOLDER}.{reference}")(content)


def _document(reference: str) -> Render:
    def render(content: Any, style: str) -> str:
        document = load_object(f"{_FOLDER}.{reference}")(content)
        try:
            # On one line: Python indents five times more slowly.
            text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        except ValueError:
            # JSON has neither infinities nor NaN.
            text = json.dumps(to_plain(document), ensure_ascii=False, allow_nan=False)
        # Readers in other languages refuse JSON with a lone surrogate: it becomes six characters, and their backslash is escaped.
        return printable_json(_SURROGATE.sub(lambda match: f"\\\\u{ord(match[0]):04x}", text)) + "\n"

    return render


def _json_lines(reference: str) -> Render:
    return lambda content, style: printable_json(_render_table("write_jsonl", _table(reference, content)))


def _comma_separated(reference: str) -> Render:
    def render(content: Any, style: str) -> str:
        from pytest_crucible.features.provenance.exports.rows import printable_table

        return _render_table("write_csv", printable_table(_table(reference, content)))

    return render


def _table(reference: str, content: Any) -> ExportTable:
    table: ExportTable = load_object(f"{_FOLDER}.{reference}")(content)
    return table


def _render_table(writer: str, table: ExportTable) -> str:
    file = BytesIO()
    load_object(f"pytest_crucible.exports.table_files:{writer}")(table, file)
    return file.getvalue().decode()


# The formats are named, and imported for the files that are written: a command without `-o` needs none.
GRAPHS: Mapping[str, Render] = {
    MERMAID: _diagram("mermaid_graphs:draw_graph"),
    ".prov.json": _document("prov:prov_document"),
    ".html": _page("pages:graph_html"),
    ".md": _page("pages:graph_markdown"),
    ".jsonl": _json_lines("rows:graph_rows"),
    ".csv": _comma_separated("rows:graph_rows"),
}
"""Ending of a file's name -> the format of a graph."""
TIMELINES: Mapping[str, Render] = {
    MERMAID: _diagram("mermaid_timelines:draw_timelines"),
    ".otlp.json": _document("otlp:otlp_document"),
    ".chrome.json": _document("chrome:chrome_document"),
    ".html": _page("pages:timelines_html"),
    ".md": _page("pages:timelines_markdown"),
    ".jsonl": _json_lines("rows:step_rows"),
    ".csv": _comma_separated("rows:step_rows"),
}
"""Ending of a file's name -> the format of timelines."""


def _file_options(formats: Mapping[str, Render]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    endings = ", ".join(formats)
    output = click.option(
        "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help=f"Write a file instead: {endings}."
    )
    style = click.option("--as", "style", type=click.Choice(STYLES), help=f"Kind of the diagram in a {MERMAID} file.")
    return lambda command: output(style(command))


graph_file_options = _file_options(GRAPHS)
timeline_file_options = _file_options(TIMELINES)


def check_graph_file(path: Path | None, style: str | None) -> None:
    """Raise SpecError for a file that no format of graphs has, or a style that it cannot have. None is no file."""
    _check_file(path, style, GRAPHS)


def check_timeline_file(path: Path | None, style: str | None) -> None:
    """Raise SpecError for a file that no format of timelines has, or a style that it cannot have. None is no file."""
    _check_file(path, style, TIMELINES)


def _check_file(path: Path | None, style: str | None, formats: Mapping[str, Render]) -> None:
    if path is not None and _ending(path, formats) is None:
        *others, last = formats
        raise SpecError(f"nothing writes {_unknown_ending(path)!r}: use {', '.join(others)} or {last}")
    if style is not None and (path is None or _ending(path, formats) != MERMAID):
        file = "no file was named" if path is None else f"{str(path)!r} is not one"
        raise SpecError(f"--as {style} is the kind of diagram in a {MERMAID} file, and {file}: add -o FILE{MERMAID}")


def _ending(path: Path, formats: Mapping[str, Render]) -> str | None:
    return next((ending for ending in formats if path.name.endswith(ending)), None)


def _unknown_ending(path: Path) -> str:
    # `.prov.json` is one ending, although it has two dots.
    endings = (ending for ending in (*GRAPHS, *TIMELINES) if path.name.endswith(ending))
    return next(endings, path.suffix or path.name)


def write_graph(graph: Graph, path: Path, style: str | None = None) -> None:
    """Write a graph, whole or not at all. Raises SpecError for an unknown ending or a file that cannot be written."""
    check_graph_file(path, style)
    _write(graph, path, style, GRAPHS)


def write_timelines(timelines: Sequence[Timeline], path: Path, style: str | None = None) -> None:
    """Write timelines, whole or not at all. Raises SpecError for an unknown ending or a file that cannot be written."""
    check_timeline_file(path, style)
    _write(timelines, path, style, TIMELINES)


def _write(content: Any, path: Path, style: str | None, formats: Mapping[str, Render]) -> None:
    render = formats[str(_ending(path, formats))]
    # Before it is laid out: escaped or cut, a key is not recognised.
    rendered = render(redact(content, process_hider()), style or STYLES[0])
    try:
        write_whole(path, rendered)
    except SpecError as error:
        raise SpecError(f"-o {path} cannot be written: {error}") from error
