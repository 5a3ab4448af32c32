"""The store's own key: it signs spill files, and marks hidden ids, so that neither can be made without the store."""

from __future__ import annotations

import secrets

from sqlalchemy import Engine, select

from pytest_crucible.store.engine import insert_or_ignore
from pytest_crucible.store.schema import store_key

_BYTES = 32


def read_store_key(engine: Engine) -> bytes:
    """Return the store's key. The first reader draws it."""
    with engine.connect() as connection:
        key: bytes | None = connection.execute(select(store_key.c.key)).scalar()
    if key is None:
        with engine.begin() as connection:
            row = {"id": 1, "key": secrets.token_bytes(_BYTES)}
            connection.execute(insert_or_ignore(engine.dialect, store_key), row)
            # Another process may have been first.
            key = connection.execute(select(store_key.c.key)).scalar_one()
    return bytes(key)
