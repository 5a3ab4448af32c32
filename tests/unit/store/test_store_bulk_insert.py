"""Rows as the driver is given them."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine

from pytest_crucible.store import schema
from pytest_crucible.store.engine import ROWS_PER_STATEMENT as MANY
from pytest_crucible.store.engine import insert_many


def test_facts_are_stored_as_json_and_none_of_them_as_null():
    row = {"run": "r", "experiment": "", "arm": "", "sample": "", "epoch": 0, "name": "vote", "at": 1.0}
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        schema.metadata.create_all(connection)
        insert_many(connection, schema.events, [{**row, "facts": {"kind": "é"}}, {**row, "facts": None}], over=False)
        stored = connection.exec_driver_sql("SELECT facts FROM events ORDER BY id").scalars().all()
    engine.dispose()

    assert stored == ['{"kind": "\\u00e9"}', None]


@pytest.mark.parametrize("number", [1, MANY - 1, MANY, MANY + 1, 3 * MANY, 3 * MANY + 7])
@pytest.mark.parametrize("over", [False, True])
def test_every_row_is_stored_once_however_many_there_are(number, over):
    """And one that is there stays as it is, or is replaced."""

    def rows(identity: str, first: int) -> list[dict[str, object]]:
        keys = range(first, first + number)
        return [{"reply": f"{identity} {key}", "key": str(key), "created": 1.0, "identity": identity} for key in keys]

    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        schema.metadata.create_all(connection)
        insert_many(connection, schema.reply_cache, rows("old", 0), over=over)
        insert_many(connection, schema.reply_cache, rows("new", number // 2), over=over)
        stored = connection.exec_driver_sql("SELECT key, identity, reply FROM reply_cache").all()
    engine.dispose()

    new = range(number // 2 if over else number, number // 2 + number)
    expected = {str(key): "new" if key in new else "old" for key in range(number // 2 + number)}
    assert sorted(map(tuple, stored)) == sorted((key, who, f"{who} {key}") for key, who in expected.items())
