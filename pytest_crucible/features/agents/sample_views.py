"""Views of what the agents of a sample did beside their calls: the tools in their journals, and their programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.agents.tables import agent_programs, agent_tools
from pytest_crucible.records import Conversation, Plan, Row, Table, View
from pytest_crucible.stats.number_format import quantity, seconds
from pytest_crucible.store.database import from_json
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore

MOST_ROWS = 200
"""Rows of one reply; the run store has all."""
MOST_TEXT = 500
"""Characters of a cell."""


def sample_views(
    store: RunStore, experiment: int, plan: Plan, position: int, conversations: Sequence[Conversation]
) -> Iterator[View]:
    """Yield a view of the tools and one of the programs of each reply that has some."""
    names = {each.arm for each in conversations}
    for number, arm in enumerate(plan.arms):
        for twin in range(1 + len(plan.variants)) if arm.name in names else ():
            for key, _ in variant_keys(store, experiment, number, twin):
                of_twin = f", {plan.variant_name(twin)}" if twin else ""
                for table in (agent_tools, agent_programs):
                    yield from _table_views(store, table.name, key, position, f"{arm.name}{of_twin}")


def _table_views(store: RunStore, table: str, arm: int, position: int, name: str) -> Iterator[View]:
    columns = _COLUMNS[table]
    query = f"""
        SELECT epoch, {", ".join(columns)} FROM {table} WHERE arm = :arm AND position = :position ORDER BY epoch, number
    """
    of_reply: dict[int, list[Mapping[str, Any]]] = {}
    for epoch, *values in store.rows(query, arm=arm, position=position):
        of_reply.setdefault(epoch, []).append(dict(zip(columns, values, strict=True)))
    for epoch, rows in of_reply.items():
        title = f"{_TITLES[table]}: {name}, reply {epoch + 1}"
        left = len(rows) - MOST_ROWS
        note = f"{quantity(left, 'more row')} in the table {table} of the run store." if left > 0 else ""
        cells = tuple(Row(cells=_CELLS[table](row)) for row in rows[:MOST_ROWS])
        yield View(title=title, tables=(Table(title=title, heads=_HEADS[table], rows=cells, note=note),))


def _tool_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    result = row["error"] or _text(row["result"])
    replayed = " (replayed)" if row["is_replayed"] else ""
    return (
        row["name"] or "tool_result",
        _cut(_text(row["arguments"])),
        f"{_cut(result)}{replayed}",
        seconds(row["seconds"]),
    )


def _program_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    words = from_json(row["command"])
    status = "-" if row["exit_status"] is None else str(row["exit_status"])
    ended = f"{status} ({row['ended']})" if row["ended"] else status
    return _cut(" ".join(words)), ended, _cut(row["output"]), _cut(row["errors"]), seconds(row["seconds"])


def _text(value: Any) -> str:
    plain = from_json(value)
    return plain if isinstance(plain, str) else "-" if plain is None else json.dumps(plain, ensure_ascii=False)


def _cut(text: str) -> str:
    return f"{text[:MOST_TEXT]}... ({len(text)} characters)" if len(text) > MOST_TEXT else text.strip() or "-"


_TITLES = {agent_tools.name: "Tools", agent_programs.name: "Programs"}
_HEADS = {
    agent_tools.name: ("tool", "arguments", "result", "took"),
    agent_programs.name: ("program", "exit status", "output", "errors", "took"),
}
_COLUMNS = {
    agent_tools.name: ("name", "arguments", "result", "error", "is_replayed", "seconds"),
    agent_programs.name: ("command", "exit_status", "ended", "output", "errors", "seconds"),
}
_CELLS = {agent_tools.name: _tool_cells, agent_programs.name: _program_cells}
