"""Outcomes, events and calls, gathered as rows by table: in the process that writes them, or that sends them to it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field
from operator import itemgetter
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Event, Lost, Observation, Outcome
from pytest_crucible.records.outcomes import copy_rows
from pytest_crucible.store import schema
from pytest_crucible.store.rows import CallRows, FeatureUnit, StoredUnit, event_rows, feature_rows, finish_text
from pytest_crucible.store.spill_file import Rows
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import refer_to_texts, sanitize_text

Row = dict[str, Any]
KEYED = (schema.reply_cache, schema.known_adapters)
"""Tables of which one row is written for a key: the last one that replaces others, else the first."""


@dataclass(slots=True)
class RowBatch:
    """Rows that are committed together, or sent to the process that commits them."""

    rows: defaultdict[Table, list[Row]] = field(default_factory=lambda: defaultdict(list))
    keyed: dict[tuple[Table, bool], dict[str, Row]] = field(default_factory=dict)
    """By table and whether they replace stored rows, and then by key."""
    events: list[tuple[str, Event]] = field(default_factory=list)
    """With the run of each. The thread turns them into rows, so that the sampling loop does not wait for it."""
    calls: list[StoredUnit] = field(default_factory=list)
    """Units with the calls that they made, likewise."""
    feature_rows: list[FeatureUnit] = field(default_factory=list)
    """Units with the rows of features about them, likewise."""
    texts: dict[str, bytes] = field(default_factory=dict)
    """Ids of the long texts that rows of other processes refer to, by text."""
    removed: list[Row] = field(default_factory=list)
    """Places of copied units, whose rows are deleted before others are written."""
    count: int = 0
    since: float = math.inf
    """When the first row was added."""

    def put(self, table: Table, row: Row, *, overwrite: bool = False) -> None:
        """Add a row of a table whose key is its first column; with `overwrite` it replaces a stored one."""
        key, rows = row[table.names[0]], self.keyed.setdefault((table, overwrite), {})
        rows[key] = row if overwrite else rows.get(key, row)

    def add_tables(self, tables: Sequence[Rows]) -> int:
        """Add what `tables` of another process has returned, and return the number of rows."""
        for table, overwrite, many in tables:
            if table is schema.texts:
                self.texts |= {row["body"]: row["id"] for row in many}
            elif table in KEYED:
                for row in many:
                    self.put(table, dict(row), overwrite=overwrite)
            else:
                self.rows[table] += map(dict, many)
        return sum(len(many) for _, _, many in tables)

    def tables(self) -> list[Rows]:
        """Return the rows by table, in the order of their keys, and whether they replace stored rows.

        Long texts come first, keyed rows last.
        """
        # Other processes may be writing the same keys: all write in one order of tables and keys, or they would deadlock.
        # And rows in the order of their keys are stored faster.
        by_name = sorted(self.rows.items(), key=lambda item: item[0].name)
        unkeyed = [(table, False, _in_order(table, many)) for table, many in by_name if many]
        keyed = sorted(self.keyed.items(), key=lambda item: (item[0][0].name, item[0][1]))
        rest = ((table, over, [rows[key] for key in sorted(rows)]) for (table, over), rows in keyed)
        return refer_to_texts([*unkeyed, *rest], dict(self.texts))


def _in_order(table: Table, rows: list[Row]) -> list[Row]:
    """Return rows sorted by key; unsorted where the database assigns the keys."""
    return sorted(rows, key=itemgetter(*table.key)) if table.key[0] in rows[0] else rows


class OutcomeRows:
    """Adds outcomes to batches as redacted rows."""

    def __init__(
        self, hide: Callable[[str], str], run: Callable[[], str], hide_id: Callable[[str], str], *, stores_texts: bool
    ) -> None:
        """`hide` redacts each text, `hide_id` ids; `run` returns the id of the current run.

        `stores_texts` is that of `CallRows`; without it no rows of features about units are stored either.
        """
        self._hide, self._hide_id, self._stores_texts = hide, hide_id, stores_texts
        self._calls = CallRows(hide, run, stores_texts=stores_texts)

    def add(
        self, batch: RowBatch, outcome: Outcome, arm: int, observations: Sequence[Observation], lost: Sequence[Lost]
    ) -> None:
        """Add one unit; `arm` is the arm's key. Its calls become rows later."""
        rows = batch.rows
        if not outcome.lost:
            rows[schema.replies].append(_reply_row(outcome, arm, self._hide))
        for observation in observations:
            rows[schema.observations].append(observation_row(observation, arm, self._hide))
        for value in lost:
            rows[schema.lost].append(_lost_row(value, arm, self._hide))
        # Its messages refer to the sample.
        if outcome.calls and outcome.sample is not None:
            batch.calls.append((arm, outcome, outcome.sample))
        if outcome.feature_rows and self._stores_texts:
            batch.feature_rows.append((arm, outcome.unit, copy_rows(outcome.feature_rows)))

    def add_late_rows(self, batch: RowBatch) -> None:
        """Add the rows of events and calls, which take longer than the sampling loop should wait."""
        if batch.events:
            batch.rows[schema.events] += event_rows(batch.events, self._hide, self._hide_id)
        if batch.calls:
            of_units = self._calls.rows(batch.calls)
            batch.rows[schema.calls] += of_units.calls
            batch.rows[schema.messages] += of_units.messages
            batch.rows[schema.conversation_texts] += of_units.conversation_texts
        for table, rows in feature_rows(batch.feature_rows, self._hide).items():
            batch.rows[table] += rows


def _reply_row(outcome: Outcome, arm: int, hide: Callable[[str], str]) -> Row:
    reply = outcome.reply
    return {
        "arm": arm,
        "position": outcome.unit.position,
        "epoch": outcome.unit.repeat,
        "text": sanitize_text(hide(reply.text)) if reply else None,
        "input_tokens": reply.input_tokens if reply else None,
        "output_tokens": reply.output_tokens if reply else None,
        "latency_s": reply.latency_s if reply else None,
        "finish": finish_text(reply) if reply else None,
        "failure": outcome.failure,
        "skipped": outcome.skipped,
        "detail": _detail(outcome.detail, hide),
        "started": outcome.started,
    }


def observation_row(observation: Observation, arm: int, hide: Callable[[str], str]) -> Row:
    """Return the redacted row of a value."""
    is_label = isinstance(observation.value, str)
    return {
        "arm": arm,
        "position": observation.unit.position,
        "epoch": observation.unit.repeat,
        "metric": observation.metric,
        # SQLite returns -0.0 as 0.0.
        "value": None if observation.value is None or is_label else float(observation.value) + 0.0,
        "is_bool": isinstance(observation.value, bool),
        "label": sanitize_text(hide(str(observation.value))) if is_label else None,
        "reason": _detail(observation.reason, hide),
    }


def _lost_row(lost: Lost, arm: int, hide: Callable[[str], str]) -> Row:
    return {
        "arm": arm,
        "position": lost.unit.position,
        "epoch": lost.unit.repeat,
        "metric": lost.metric or "",
        "reason": lost.reason,
        "detail": _detail(lost.detail, hide),
    }


def _detail(text: str, hide: Callable[[str], str]) -> str | None:
    """Return a text as it is stored; None for an empty one, as most are."""
    return (sanitize_text(hide(text)) or None) if text else None
