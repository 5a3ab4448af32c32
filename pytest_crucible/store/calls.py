"""Reads the calls and replies of an arm as columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, select

from pytest_crucible.records import Draws
from pytest_crucible.records.calls import Answerer, CallColumns, ReplyColumns
from pytest_crucible.store import schema
from pytest_crucible.store.outcomes import of_arm, place_of, read_columns
from pytest_crucible.store.replies import BATCH_SIZE
from pytest_crucible.store.runs import RunStore

_NO_JSON = "null"


def load_calls(store: RunStore, experiment: int, number: int, draws: Draws) -> CallColumns:
    """Return the calls of one arm about the original samples, those of judges and of members as well."""
    table, replies = schema.calls, schema.replies
    scored = (
        (replies.c.arm == table.c.arm) & (replies.c.position == table.c.position) & (replies.c.epoch == table.c.epoch)
    )
    place = place_of(table, draws).label("place")
    query = (
        select(table.c.position, place, table.c.call, table.c.request, table.c.member, table.c.messages)
        .add_columns(
            sa.cast(table.c.parameters, sa.Text),
            table.c.is_scored,
            *(column for each in (table, replies) for column in (each.c.text_id, each.c.text)),
            sa.cast(table.c.answered_by, sa.Text),
            *(table.c.cached, table.c.as_before),
        )
        .select_from(table.join(schema.arms, schema.arms.c.id == table.c.arm).outerjoin(replies, scored))
        .where(of_arm(experiment, number))
        .order_by(table.c.position, "place", table.c.call, table.c.member)
    )
    columns = _columns(store, query)
    (
        positions,
        repeats,
        calls,
        requests,
        members,
        forms,
        parameters,
        is_scored,
        *texts,
        answered_by,
        cached,
        as_before,
    ) = columns
    own_ids, own_texts, scored_ids, scored_texts = texts
    return CallColumns(
        positions=positions,
        repeats=repeats,
        calls=calls,
        requests=requests,
        members=members,
        forms=forms,
        parameters=["" if text in (None, _NO_JSON) else text for text in parameters],
        texts=[
            _key(*scored) if is_of_reply else _key(*own)
            for is_of_reply, scored, own in zip(
                is_scored,
                zip(scored_ids, scored_texts, strict=True),
                zip(own_ids, own_texts, strict=True),
                strict=True,
            )
        ],
        answered_by=list(map(_answerer, answered_by)),
        cached=cached,
        as_before=as_before,
    )


def load_replies(store: RunStore, experiment: int, number: int, draws: Draws) -> ReplyColumns:
    """Return the replies of one arm to the original samples, without skipped and lost ones."""
    table = schema.replies
    place = place_of(table, draws).label("place")
    query = (
        select(table.c.position, place, table.c.text_id, table.c.text, table.c.finish, table.c.failure)
        .select_from(table.join(schema.arms, schema.arms.c.id == table.c.arm))
        .where(of_arm(experiment, number), table.c.skipped.is_(False))
        .order_by(table.c.position, "place")
    )
    columns = _columns(store, query)
    positions, repeats, text_ids, texts, finishes, failures = columns
    return ReplyColumns(
        positions=positions,
        repeats=repeats,
        texts=list(map(_key, text_ids, texts)),
        finishes=[finish or "" for finish in finishes],
        failures=[failure or "" for failure in failures],
    )


def load_long_texts(store: RunStore, keys: Collection[bytes]) -> dict[bytes, str]:
    """Return texts by their keys, of those that are stored."""
    table, ordered = schema.texts, sorted(keys)
    texts: dict[bytes, str] = {}
    for first in range(0, len(ordered), BATCH_SIZE):
        query = select(table.c.id, table.c.body).where(table.c.id.in_(ordered[first : first + BATCH_SIZE]))
        texts |= {bytes(key): body for key, body in store.rows(query)}
    return texts


def _columns(store: RunStore, query: Select[Any]) -> Sequence[Any]:
    with store.connect() as connection:
        return read_columns(connection.execute(query), len(query.selected_columns))


def _key(text_id: bytes | None, text: str | None) -> bytes | str | None:
    return text if text_id is None else bytes(text_id)


@cache
def _answerer(text: str | None) -> Answerer | None:
    """Return what a server says of itself. Most replies of a run have one text."""
    return None if text in (None, _NO_JSON) else Answerer(*json.loads(text or ""))
