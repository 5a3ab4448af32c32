"""Rows as the driver is given them."""

from __future__ import annotations

from sqlalchemy import create_engine

from pytest_crucible.store import schema
from pytest_crucible.store.inserting import insert_many


def test_facts_are_stored_as_json_and_none_of_them_as_null():
    row = {"run": "r", "experiment": "", "arm": "", "sample": "", "epoch": 0, "name": "vote", "at": 1.0}
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        schema.metadata.create_all(connection)
        insert_many(connection, schema.events, [{**row, "facts": {"kind": "é"}}, {**row, "facts": None}], over=False)
        stored = connection.exec_driver_sql("SELECT facts FROM events ORDER BY id").scalars().all()
    engine.dispose()

    assert stored == ['{"kind": "\\u00e9"}', None]
