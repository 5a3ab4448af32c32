"""Store each text of a reply once: a row contains a short text, and refers to a long one by its hash.

A reply is written several times: to the reply cache as it arrives, with its sample when that is finished, and by each later run
that reads it from the cache or copies the stored arm. Until they are written, rows contain the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, func, select

from pytest_crucible.store import schema
from pytest_crucible.store.redact_once import SHORTEST
from pytest_crucible.store.spill_file import Rows

REFERENCES = ("text_id", "reasoning_id")
"""Columns that refer to the table `texts`."""


def refer_to_texts(tables: Iterable[Rows]) -> list[Rows]:
    """Return rows to write, with references in place of their long texts, after the rows of the texts themselves.

    In a row to write, `text` may be long and `reasoning_id` is the reasoning itself. A text is written with every row that refers
    to it, even if it is stored already, because `crucible gc` may have just removed it.
    """
    ids: dict[str, bytes] = {}
    referring: list[Rows] = [(table, over, _refer(table, rows, ids)) for table, over, rows in tables]
    # In the order of their keys: writers that insert in different orders would deadlock.
    texts = [{"id": key, "body": text} for text, key in sorted(ids.items(), key=lambda item: item[1])]
    return [(schema.texts, False, texts), *referring] if texts else referring


def stored_text(table: Table) -> ColumnElement[Any]:
    """Return the column `text` of a table, wherever the text is stored."""
    return func.coalesce(table.c.text, referred_text(table.c.text_id)).label("text")


def referred_text(reference: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the text that a column refers to."""
    return select(schema.texts.c.body).where(schema.texts.c.id == reference).scalar_subquery()


def _refer(table: Table, rows: Sequence[Any], ids: dict[str, bytes]) -> Sequence[Any]:
    # Most batches have only short texts and are left as they are.
    if "text_id" in table.c and any(len(row.get("text") or "") >= SHORTEST for row in rows):
        rows = [_with_long_text_apart(row, ids) for row in rows]
    if "reasoning_id" in table.c and any(row.get("reasoning_id") for row in rows):
        rows = [{**row, "reasoning_id": _text_id(row["reasoning_id"], ids)} for row in rows]
    return rows


def _with_long_text_apart(row: Any, ids: dict[str, bytes]) -> Any:
    text = row.get("text")
    is_long = text is not None and len(text) >= SHORTEST
    return {**row, "text": None, "text_id": _text_id(text, ids)} if is_long else {**row, "text": text, "text_id": None}


def text_id(text: str) -> bytes:
    """Return 128 bits of the text's SHA-256. With 64, a model could be made to write two texts with one id."""
    return hashlib.sha256(text.encode()).digest()[:16]


def _text_id(text: str | None, ids: dict[str, bytes]) -> bytes | None:
    if text is not None and text not in ids:
        ids[text] = text_id(text)
    return None if text is None else ids[text]
