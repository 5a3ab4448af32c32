"""Reads the calls and replies of an arm as columns."""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from pytest_crucible.records import Draws
from pytest_crucible.records.calls import Answerer, CallColumns, ReplyColumns
from pytest_crucible.records.outcomes import STOP
from pytest_crucible.store.database import BATCH_SIZE
from pytest_crucible.store.outcomes import SharedTexts, of_arm, place_of, read_columns, read_into
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import PARAMETERS

_NO_JSON = "null"
_FLAGS = {None: None, 0: False, 1: True}


def unknown_calls(store: RunStore, run: str) -> str:
    """Return why the calls of a run are not known, as a sentence; empty if they are."""
    row = store.run(run)
    imported = row["environment"].get("imported")
    if imported:
        return f"run {run} was imported from {imported[0].get('harness') or 'another harness'}: its calls are unknown"
    settings = (row["manifest"] or {}).get("settings") or {}
    if settings.get("trace") == "off":
        return f"run {run} was recorded with --crucible-trace=off: its calls are unknown"
    return ""


def load_calls(store: RunStore, experiment: int, number: int, draws: Draws, twin: int = 0) -> CallColumns:
    """Return the calls of one arm about the original samples, or their twins, those of judges and of members as well."""
    query = f"""
        SELECT
            calls.position, {place_of("calls", draws, twin)} AS place, calls.call, request, member, messages, {PARAMETERS},
            CASE WHEN is_scored THEN replies.text_id ELSE calls.text_id END,
            CASE WHEN is_scored THEN replies.text ELSE calls.text END,
            answered_by, cached, as_before, calls.finish
        FROM calls JOIN arms ON arms.id = calls.arm
        LEFT JOIN replies ON replies.arm = calls.arm AND replies.position = calls.position AND replies.epoch = calls.epoch
        WHERE {of_arm(twin)}
        ORDER BY calls.position, place, calls.call, calls.member
    """
    (
        positions,
        repeats,
        calls,
        requests,
        members,
        forms,
        parameters,
        text_ids,
        texts,
        answered_by,
        cached,
        as_before,
        finishes,
    ) = _columns(store, query, experiment, number, 13)
    return CallColumns(
        positions=positions,
        repeats=repeats,
        calls=calls,
        requests=requests,
        members=members,
        forms=forms,
        parameters=["" if text in (None, _NO_JSON) else text for text in parameters],
        texts=list(map(_key, text_ids, texts)),
        answered_by=list(map(_answerer, answered_by)),
        cached=[_FLAGS[flag] for flag in cached],
        as_before=[_FLAGS[flag] for flag in as_before],
        finishes=[STOP if finish == "" else finish for finish in finishes],
    )


def load_replies(store: RunStore, experiment: int, number: int, draws: Draws) -> ReplyColumns:
    """Return the replies of one arm to the original samples, without skipped and lost ones."""
    query = f"""
        SELECT replies.position, {place_of("replies", draws)} AS place, text_id, text, finish, failure
        FROM replies JOIN arms ON arms.id = replies.arm
        WHERE {of_arm()} AND NOT skipped
        ORDER BY replies.position, place
    """
    columns: Sequence[Any] = array("i"), array("i"), [], SharedTexts(), SharedTexts(), SharedTexts()
    with store.connect() as connection:
        rows = connection.execute(query, experiment=experiment, number=number)
        positions, repeats, text_ids, texts, finishes, failures = read_into(rows, columns)
    return ReplyColumns(
        positions=positions,
        repeats=repeats,
        texts=list(map(_key, text_ids, texts)),
        finishes=[finish or "" for finish in finishes],
        failures=[failure or "" for failure in failures],
    )


def load_long_texts(store: RunStore, keys: Collection[bytes]) -> dict[bytes, str]:
    """Return texts by their keys, of those that are stored."""
    ordered = sorted(keys)
    texts: dict[bytes, str] = {}
    for first in range(0, len(ordered), BATCH_SIZE):
        part = ordered[first : first + BATCH_SIZE]
        texts |= store.rows("SELECT id, body FROM texts WHERE id IN (:keys)", keys=part)
    return texts


def _columns(store: RunStore, query: str, experiment: int, number: int, width: int) -> Sequence[Any]:
    with store.connect() as connection:
        return read_columns(connection.execute(query, experiment=experiment, number=number), width)


def _key(text_id: bytes | None, text: str | None) -> bytes | str | None:
    return text if text_id is None else text_id


@cache
def _answerer(text: str | None) -> Answerer | None:
    """Return what a server says of itself. Most replies of a run have one text."""
    return None if text in (None, _NO_JSON) else Answerer(*json.loads(text or ""))
