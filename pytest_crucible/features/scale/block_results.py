"""Reads the outcomes of a block from its rows, as far as a driver needs them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.records import Lost, Observation, Outcome, Unit
from pytest_crucible.session.experiment import StoredResult
from pytest_crucible.store import schema
from pytest_crucible.store.spill_file import Rows

_Place = tuple[int, int, int]
"""Key of the arm, position, repeat."""


def read_results(tables: Sequence[Rows], units: Sequence[Unit], arms: Sequence[Sequence[int]]) -> list[StoredResult]:
    """Return the results of a block's units, in their order. `arms` are the store's keys by arm and variant."""
    texts = {row["id"]: row["body"] for table, _, rows in tables if table is schema.texts for row in rows}
    by_place: dict[str, dict[_Place, list[Mapping[str, Any]]]] = {}
    for table, _, rows in tables:
        if table.name in _READ:
            gathered: dict[_Place, list[Mapping[str, Any]]] = defaultdict(list)
            by_place[table.name] = gathered
            for row in rows:
                gathered[row["arm"], row["position"], row["epoch"]].append(_with_parameters(row, texts))
    return [_result(unit, (arms[unit.arm][unit.variant], unit.position, unit.repeat), by_place) for unit in units]


def _with_parameters(row: Mapping[str, Any], texts: Mapping[bytes, str]) -> Mapping[str, Any]:
    """Return a row; of a call that refers to the text of its parameters with these."""
    key = row.get("parameters_id")
    return row if key is None or key not in texts else {**row, "parameters": json.loads(texts[key])}


_READ = frozenset(table.name for table in (schema.replies, schema.observations, schema.lost, schema.calls))


def _result(
    unit: Unit, place: _Place, by_place: Mapping[str, Mapping[_Place, list[Mapping[str, Any]]]]
) -> StoredResult:
    replies, observations, lost, calls = (
        by_place.get(table.name, {}).get(place, [])
        for table in (schema.replies, schema.observations, schema.lost, schema.calls)
    )
    losses = [Lost(unit, row["metric"] or None, row["reason"], row["detail"] or "") for row in lost]
    whole = next((loss for loss in losses if loss.metric is None), None)
    reply: Mapping[str, Any] = replies[0] if replies else {}
    outcome = Outcome(
        unit,
        lost=whole.reason if whole else None,
        detail=(whole.detail if whole else reply.get("detail")) or "",
        failure=reply.get("failure"),
        skipped=bool(reply.get("skipped")),
    )
    return StoredResult(outcome, [_observation(unit, row) for row in observations], losses, calls)


def _observation(unit: Unit, row: Mapping[str, Any]) -> Observation:
    value = row["value"] if row["label"] is None else row["label"]
    return Observation(
        unit, row["metric"], bool(value) if row["is_bool"] and value is not None else value, row["reason"] or ""
    )
