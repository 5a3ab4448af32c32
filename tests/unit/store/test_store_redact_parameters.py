"""No statement takes a key to the database, by any writer and statement."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import insert, select, text, update

from pytest_crucible.records.redaction import hider
from pytest_crucible.store import schema
from pytest_crucible.store.engine import insert_many
from pytest_crucible.store.redactors import IdRedactor
from pytest_crucible.store.runs import RunStore

KEY = "sk-proj-0123456789abcdef"
TAGS = schema.tags
ROW = {"run": "r", "at": "now", "promoted": False, "forced": False}


@pytest.fixture
def store(tmp_path):
    store = RunStore(str(tmp_path / "runs.db"), hider(["a value without a form"]))
    yield store
    store.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda connection, name: connection.execute(insert(TAGS).values(name=name, **ROW)),
        lambda connection, name: connection.execute(insert(TAGS), [{"name": name, **ROW}, {"name": "b", **ROW}]),
        lambda connection, name: insert_many(connection, TAGS, [{"name": name, **ROW}], over=False),
        lambda connection, name: connection.execute(update(TAGS).values(name=name)),
        lambda connection, name: connection.execute(text("update tags set name = :name"), {"name": name}),
        lambda connection, name: connection.exec_driver_sql("update tags set name = ?", (name,)),
    ],
)
@pytest.mark.parametrize(
    "key", [KEY, "a value without a form", json.dumps([f"line\n{KEY}"]), json.dumps(json.dumps(f"\u2028{KEY}"))]
)
def test_no_way_of_writing_takes_a_key(store, write, key):
    with store.engine.begin() as connection:
        connection.execute(insert(TAGS).values(name="plain", **{**ROW, "run": "s"}))
        write(connection, key)
        names = connection.execute(select(TAGS.c.name)).scalars().all()

        assert not any(KEY in name or "without a form" in name for name in names)
        assert any("(key hidden)" in name for name in names)
        # What is looked up by such a name is found by it.
        assert connection.execute(select(TAGS.c.id).where(TAGS.c.name == key)).scalars().all()


def test_hidden_ids_stay_apart_and_equal():
    redact, again = (IdRedactor(hider(), b"the store's key") for _ in range(2))
    ids = [f"sk-learn-regression-{k:04}" for k in range(200)]

    assert len({redact(entry) for entry in ids}) == 200
    assert [redact(entry) for entry in ids] == [again(entry) for entry in ids]
    assert redact("s1") == "s1"
    assert redact(ids[0]) != IdRedactor(hider(), b"another store's")(ids[0])
