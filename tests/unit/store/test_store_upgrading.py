"""A run store of an earlier format becomes one of this format, in place, and keeps what it holds."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, create_engine, inspect, select, update

from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore


def written_by(version: int, path: Path) -> str:
    """A store as that version made it, with one run in it."""
    later = {one for additions in schema.ADDED[version - 1 :] for one in additions}
    then = MetaData()
    for table in schema.metadata.tables.values():
        if table not in later:
            copy = table.to_metadata(then)
            for column in list(copy.columns):
                if table.c[column.name] in later:
                    copy._columns.remove(column)
    engine = create_engine(f"sqlite:///{path}")
    then.create_all(engine)
    with engine.begin() as connection:
        connection.execute(then.tables["store_format"].insert().values(version=version))
    engine.dispose()
    return str(path)


def described(location: str) -> dict[str, dict[str, str]]:
    """All tables with their columns and types."""
    engine = create_engine(f"sqlite:///{location}")
    look = inspect(engine)
    found = {
        table: {column["name"]: str(column["type"]) for column in look.get_columns(table)}
        for table in look.get_table_names()
    }
    engine.dispose()
    return found


VERSIONS = pytest.mark.parametrize("version", range(1, schema.FORMAT))


@VERSIONS
def test_it_gets_what_later_formats_have_added(tmp_path, version):
    old, new = written_by(version, tmp_path / "old.db"), str(tmp_path / "new.db")
    before = described(old)
    for location in (old, new):
        RunStore(location).close()

    assert before != described(old) == described(new)


@VERSIONS
def test_it_keeps_what_it_holds(tmp_path, version):
    location = written_by(version, tmp_path / "old.db")
    engine = create_engine(f"sqlite:///{location}")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO runs (id, started, status, seed, alpha, correction, environment) "
            "VALUES ('run1', 'then', 'finished', 0, 0.05, 'holm', '{}')"
        )
    engine.dispose()
    store = RunStore(location)
    status = store.run("run1")["status"]
    with store.engine.connect() as connection:
        formats = connection.execute(select(schema.store_format)).all()
    store.close()

    assert status == "finished"
    assert formats == [(schema.FORMAT,)]


def test_several_that_open_it_at_once_all_find_it_upgraded(tmp_path):
    location = written_by(1, tmp_path / "old.db")
    problems: list[BaseException] = []

    def open_it() -> None:
        try:
            RunStore(location).close()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
    assert "reply_cache" in described(location)


def test_what_is_there_already_is_left_alone(tmp_path):
    location = str(tmp_path / "new.db")
    store = RunStore(location)
    with store.engine.begin() as connection:
        connection.execute(update(schema.store_format).values(version=1))
    store.close()
    before = described(location)
    RunStore(location).close()

    assert described(location) == before


def test_nothing_that_was_added_is_required():
    """Rows of an earlier format have none of it."""
    columns = [one for additions in schema.ADDED for one in additions if isinstance(one, Column)]

    assert columns
    assert all(column.nullable for column in columns)
