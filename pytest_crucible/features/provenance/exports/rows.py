"""Graphs and timelines as rows of tables, for CSV and JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.features.provenance.graph import Graph
from pytest_crucible.features.provenance.timeline import Timeline, find_start
from pytest_crucible.records import ColumnKind, ExportTable
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.report.printable import LONGEST_ESCAPE, printable, printable_json

_STEPS: dict[str, ColumnKind] = {
    **dict.fromkeys(("run", "experiment", "arm", "sample"), "text"),
    "repeat": "integer",
    "variant": "text",
    "step": "integer",
    "kind": "text",
    "title": "text",
    **dict.fromkeys(("at", "since_first_s", "seconds"), "number"),
    **dict.fromkeys(("call", "request"), "integer"),
    "member": "text",
    "is_claim": "flag",
    "facts": "json",
    "unknown": "text",
}
_GRAPH: dict[str, ColumnKind] = {
    **dict.fromkeys(("row", "key", "kind", "type", "label"), "text"),
    "facts": "json",
    "target": "text",
}


def step_rows(timelines: Sequence[Timeline]) -> ExportTable:
    """Return one row for each step. A timeline without steps has one row without a step, with the reason in `unknown`."""
    return ExportTable(columns=_STEPS, rows=_step_rows(timelines))


def _step_rows(timelines: Sequence[Timeline]) -> Iterator[tuple[Any, ...]]:
    for timeline in timelines:
        of = (timeline.run, timeline.experiment, timeline.arm, timeline.sample, timeline.repeat, timeline.variant)
        start = find_start(timeline.steps)
        if not timeline.steps:
            yield *of, *[None] * (len(_STEPS) - len(of) - 1), timeline.unknown
        for number, step in enumerate(timeline.steps, start=1):
            since = None if step.at is None or start is None else round(step.at - start, 6)
            when = (step.at, since, step.seconds, step.call, step.request)
            yield *of, number, step.kind, step.title, *when, step.member, step.is_claim, step.facts, timeline.unknown


def graph_rows(graph: Graph) -> ExportTable:
    """Return one row for each node, and then one for each relation, from `key` to `target`."""
    return ExportTable(columns=_GRAPH, rows=_graph_rows(graph))


def _graph_rows(graph: Graph) -> Iterator[tuple[Any, ...]]:
    for node in graph.nodes.values():
        yield "node", node.key, node.kind, node.type, node.label, node.facts, None
    for relation in graph.relations:
        yield "relation", relation.source, relation.kind, None, None, None, relation.target


def printable_table(table: ExportTable) -> ExportTable:
    """Return a table for a format that people open: control characters of its texts are escapes, and facts are JSON."""
    return replace(table, rows=(tuple(map(_printable_cell, row)) for row in table.rows))


def _printable_cell(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, len(value) * LONGEST_ESCAPE)
    if value is None or isinstance(value, bool | int | float):
        return value
    return printable_json(json.dumps(to_plain(value), ensure_ascii=False))
