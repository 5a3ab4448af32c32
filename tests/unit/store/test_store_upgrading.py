"""A run store of an earlier format becomes one of this format, in place, and keeps what it holds."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pytest_crucible.commands.show import conversation_lines
from pytest_crucible.records import Sample
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.store import schema
from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.database import Database
from pytest_crucible.store.opening import make_database
from pytest_crucible.store.replies import StoredReplies
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_sample


@pytest.fixture(params=["sqlite", "postgresql"])
def blank(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """A new place for a store at each call: another file, or the same database emptied."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{secrets.token_hex(4)}.db"
    url = str(request.getfixturevalue("postgresql"))

    def empty() -> str:
        with psycopg.connect(url, autocommit=True) as connection:
            for table in schema.all_tables():
                connection.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
        return url

    return empty


def written_by(version: int, location: str) -> str:
    """A store as that version made it, without the tables of features."""
    later = {addition for additions in schema.ADDED[version - 1 :] for addition in additions}
    tables = [table for table in schema.all_tables().values() if table not in {*later, *schema.feature_tables()}]
    database = blank_database(location)
    with database.begin() as connection:
        for table in tables:
            columns = tuple(column for column in table.columns if (table, column.name) not in later)
            for statement in replace(table, columns=columns).statements(is_sqlite=connection.is_sqlite):
                connection.execute(statement)
        connection.insert(schema.store_format, [{"version": version}])
    database.dispose()
    return location


def blank_database(location: str) -> Database:
    """The connections to a database in which nothing is created."""
    return make_database(location, 5.0)


def describe(location: str) -> dict[str, list[tuple[str, str]]]:
    """All tables with their columns and types, sorted."""
    database = blank_database(location)
    with database.connect() as connection:
        columns = {
            table: sorted(connection.execute(COLUMNS[connection.is_sqlite], name=table))
            for table in connection.tables()
        }
    database.dispose()
    return columns


COLUMNS = {
    True: "SELECT name, type FROM pragma_table_info(:name)",
    False: "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = :name",
}


VERSIONS = pytest.mark.parametrize("version", range(1, schema.FORMAT))


@VERSIONS
def test_an_older_store_gets_the_tables_and_columns_of_later_formats(blank, version):
    old = written_by(version, blank())
    before = describe(old)
    RunStore(old).close()
    upgraded = describe(old)
    new = blank()
    RunStore(new).close()

    assert before != upgraded == describe(new)


@VERSIONS
def test_an_upgraded_store_keeps_its_rows(blank, version):
    location = written_by(version, blank())
    database = blank_database(location)
    with database.begin() as connection:
        connection.execute(
            "INSERT INTO runs (id, started, status, seed, alpha, correction, environment) "
            "VALUES ('run1', 'then', 'finished', 0, 0.05, 'holm', '{}')"
        )
    database.dispose()
    store = RunStore(location)
    status = store.run("run1")["status"]
    formats = list(store.rows("SELECT version FROM store_format"))
    store.close()

    assert status == "finished"
    assert formats == [(schema.FORMAT,)]


def test_threads_that_open_an_older_store_at_once_find_it_upgraded(blank):
    location = written_by(1, blank())
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
    assert "reply_cache" in describe(location)


def test_an_existing_table_is_left_alone(blank):
    location = blank()
    store = RunStore(location)
    store.execute("UPDATE store_format SET version = 1")
    store.close()
    before = describe(location)
    RunStore(location).close()

    assert describe(location) == before


def test_a_store_that_was_made_without_a_feature_gets_its_tables(blank):
    location = written_by(schema.FORMAT, blank())
    tables = {table.name for table in schema.feature_tables()}
    before = describe(location)

    RunStore(location).close()

    assert not tables & set(before)
    assert tables <= set(describe(location))


def test_added_columns_are_nullable():
    """Rows of an earlier format have none of it."""
    added = [addition for additions in schema.ADDED for addition in additions if isinstance(addition, tuple)]
    columns = [table.column(name) for table, name in added]

    assert columns
    assert not any(column.required or column.key for column in columns)


@pytest.fixture
def open_packed(tmp_path: Path) -> Iterator[Callable[[str], RunStore]]:
    """Opens a store that the last version of a format wrote.

    Format 3: six samples, two arms, one target, one comparison. Format 4: three samples, two calls each, long replies with
    reasoning.
    """
    with contextlib.ExitStack() as opened:

        def open_store(name: str) -> RunStore:
            packed = Path(__file__).parents[2] / f"data/stores/{name}.db.gz"
            (tmp_path / "runs.db").write_bytes(gzip.decompress(packed.read_bytes()))
            return opened.enter_context(contextlib.closing(RunStore(str(tmp_path / "runs.db"))))

        yield open_store


def test_a_run_that_an_earlier_version_stored_is_shown_as_it_was(open_packed):
    store = open_packed("format3")
    run = load_run(store, store.find_run("tag:main"))

    [experiment] = run.experiments
    assert [(estimate.arm, estimate.value) for estimate in experiment.estimates] == [("v2", 5 / 6), ("v1", 0.5)]
    assert [(verdict.subject, verdict.state) for verdict in run.verdicts] == [
        ("exact_match >= 0.70", "met"),
        ("exact_match: v2 vs v1", "undecided"),
    ]


def test_replies_of_an_earlier_version_have_a_conversation_without_calls(open_packed):
    store = open_packed("format3")
    [(key, plan, _)] = store.experiments(store.find_run())
    talks = load_conversations(store, key, plan, 4)
    lines = list(conversation_lines("t", load_sample(store, plan.dataset_sha256, 4), talks, reasoning=False))

    assert [(talk.arm, talk.reply, talk.calls) for talk in talks] == [("v2", "8", ()), ("v1", "none", ())]
    assert lines[3:6] == [
        "v2: answered (exact_match = True)",
        "  (the messages of this reply were not recorded; this is the sample's input)",
        "  input      4 + 4",
    ]


def test_samples_of_an_earlier_version_get_their_metadata_in_the_next_run(open_packed):
    store = open_packed("format3")
    [(_, plan, _)] = store.experiments(store.find_run())
    samples = [
        Sample(id=f"q{k}", input=f"{k} + {k}", expected=str(2 * k), group=kind, metadata={"kind": kind})
        for k, kind in enumerate(("even", "odd") * 3)
    ]
    before = load_sample(store, plan.dataset_sha256, 1)
    store.begin_run("run2", started="", seed=0, alpha=0.05, correction="holm", environment={})
    store.add_experiment("run2", plan, samples)
    after = load_sample(store, plan.dataset_sha256, 1)

    assert (before["metadata"], after["metadata"]) == (None, {"kind": "odd"})
    assert {**before, "metadata": None} == {**after, "metadata": None}


def test_long_replies_and_reasoning_of_format_4_are_read_where_they_are(open_packed):
    store = open_packed("format4")
    [(key, plan, _)] = store.experiments(store.find_run())
    [talk] = load_conversations(store, key, plan, 1)
    keys = list(store.scalars("SELECT key FROM reply_cache"))
    writer = store.writer()
    replies = StoredReplies(lambda: store, lambda: writer)
    cached = [asyncio.run(replies.get(key)) for key in keys]
    replies.close()
    writer.close()

    text, reasoning = "Sample q1: " + "a long answer, " * 20, "About q1: " + "hm, " * 40
    assert talk.reply == text
    assert [(call.text, call.reasoning) for call in talk.calls] == [(text, reasoning)] * 2
    assert len(cached) == 6
    assert {(entry.reply.text, entry.reply.reasoning) for entry in cached} == {
        (text.replace("q1", f"q{k}"), reasoning.replace("q1", f"q{k}")) for k in range(3)
    }
