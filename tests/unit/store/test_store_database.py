"""Statements, transactions and inserted rows, in SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_crucible.store import schema
from pytest_crucible.store.database import FEWEST_COPIED, Database
from pytest_crucible.store.database import ROWS_PER_STATEMENT as MANY
from pytest_crucible.store.opening import open_database


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty run store."""
    is_sqlite = request.param == "sqlite"
    opened = open_database(str(tmp_path / "runs.db") if is_sqlite else str(request.getfixturevalue("postgresql")))
    yield opened
    opened.dispose()


def cached_row(key: str, identity: str = "v1") -> dict[str, object]:
    return {"reply": f"{identity} {key}", "key": key, "created": 1.0, "identity": identity}


def test_values_are_sent_by_name_and_lists_by_their_items(database):
    with database.connect() as connection:
        connection.insert(schema.reply_cache, [cached_row(key) for key in "abc"])
        query = "SELECT key FROM reply_cache WHERE identity = :identity AND key IN (:keys) ORDER BY key"

        assert list(connection.scalars(query, identity="v1", keys=["a", "c", "z"])) == ["a", "c"]
        assert list(connection.scalars(query, identity="v2", keys=["a"])) == []
        assert list(connection.scalars(query, identity="v1", keys=[])) == []


def test_text_that_looks_like_a_value_is_text(database):
    with database.connect() as connection:
        stored = connection.first("SELECT CAST(:text AS TEXT), '100 %', CAST(1 AS TEXT)", text=":text ? %s %(x)s")

    assert stored == (":text ? %s %(x)s", "100 %", "1")


def test_rows_by_the_names_of_their_columns(database):
    with database.connect() as connection:
        connection.insert(schema.reply_cache, [cached_row("a")])

        [row] = connection.named_rows("SELECT key, reply AS text FROM reply_cache")
    assert row == {"key": "a", "text": "v1 a"}


def test_a_transaction_that_fails_leaves_nothing(database):
    def fail() -> None:
        with database.begin() as connection:
            connection.insert(schema.reply_cache, [cached_row("a")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with database.connect() as connection:
        assert connection.scalar("SELECT COUNT(*) FROM reply_cache") == 0


def test_an_interrupt_as_a_transaction_begins_leaves_no_lock(database):
    """Ctrl-C while it waits for its lock is raised as soon as it has it."""

    def interrupt() -> None:
        with database.connect() as connection:
            connection.raw.execute("BEGIN IMMEDIATE" if database.is_sqlite else "BEGIN")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    with database.begin() as connection:
        connection.insert(schema.reply_cache, [cached_row("a")])
    with database.connect() as first, database.connect() as second:
        assert [each.scalar("SELECT key FROM reply_cache") for each in (first, second)] == ["a", "a"]


def test_a_transaction_that_reads_first_writes_after_another_has_written(tmp_path):
    """SQLite refuses this to a transaction that began as a reader."""
    database, other = (open_database(str(tmp_path / "runs.db")) for _ in range(2))
    began = threading.Event()

    def write() -> None:
        began.wait(5)
        with other.connect() as connection:
            connection.insert(schema.reply_cache, [cached_row("b")])

    thread = threading.Thread(target=write)
    thread.start()
    with database.begin() as connection:
        before = connection.scalar("SELECT COUNT(*) FROM reply_cache")
        began.set()
        connection.insert(schema.reply_cache, [cached_row("a")])
    thread.join()
    with database.connect() as connection:
        after = connection.scalar("SELECT COUNT(*) FROM reply_cache")
    database.dispose()
    other.dispose()

    assert (before, after) == (0, 2)


def test_streamed_rows_are_all_rows(database):
    with database.connect() as connection:
        connection.insert(schema.reply_cache, [cached_row(f"{number:03}") for number in range(250)])
        query = "SELECT key FROM reply_cache WHERE identity = :identity ORDER BY key"
        with connection.stream(query, identity="v1") as rows:
            keys = [key for (key,) in rows]

    assert keys == [f"{number:03}" for number in range(250)]


def test_facts_are_stored_as_json_and_missing_ones_as_null(database):
    row = {"run": "r", "experiment": "", "arm": "", "sample": "", "epoch": 0, "name": "vote", "at": 1.0}
    with database.connect() as connection:
        connection.insert(schema.events, [{**row, "facts": {"kind": "é"}}, {**row, "facts": None}])

        assert list(connection.scalars("SELECT facts FROM events ORDER BY id")) == ['{"kind": "\\u00e9"}', None]


@pytest.mark.parametrize("number", [1, MANY - 1, MANY, MANY + 1, 3 * MANY, 3 * MANY + 7])
@pytest.mark.parametrize("over", [False, True])
def test_each_row_is_stored_once_in_any_number_of_statements(database, number, over):
    """And one that is there stays as it is, or is replaced."""

    def rows(identity: str, first: int) -> list[dict[str, object]]:
        return [cached_row(str(key), identity) for key in range(first, first + number)]

    with database.begin() as connection:
        inserted = connection.insert(schema.reply_cache, rows("old", 0), over=over)
        inserted_later = connection.insert(schema.reply_cache, rows("new", number // 2), over=over)
        stored = connection.execute("SELECT key, identity, reply FROM reply_cache").fetchall()

    new = range(number // 2 if over else number, number // 2 + number)
    expected = {str(key): "new" if key in new else "old" for key in range(number // 2 + number)}
    assert sorted(stored) == sorted((key, who, f"{who} {key}") for key, who in expected.items())
    assert (inserted, inserted_later) == (number, number if over else number // 2)


def test_a_row_without_a_value_replaces_the_value_of_a_stored_row(database):
    with database.begin() as connection:
        connection.insert(schema.reply_cache, [{**cached_row(key), "run": key} for key in "abc"], over=True)
        connection.insert(schema.reply_cache, [{**cached_row("a"), "run": None}], over=True)
        connection.insert(
            schema.reply_cache, [{**cached_row("b"), "run": None}, cached_row("d") | {"run": "d"}], over=True
        )
        stored = connection.execute("SELECT key, run FROM reply_cache ORDER BY key").fetchall()

    assert stored == [("a", None), ("b", None), ("c", "c"), ("d", "d")]


def test_inserted_texts_pass_the_redactor(database):
    database.redact = lambda texts: [text.replace("secret", "hidden") for text in texts]
    rows = [cached_row(f"{number} {'secret' * (number % 2)}") for number in range(MANY + 3)]
    with database.connect() as connection:
        connection.insert(schema.reply_cache, rows)
        stored = connection.raw.execute("SELECT reply FROM reply_cache").fetchall()

    assert sorted(stored) == sorted((str(row["reply"]).replace("secret", "hidden"),) for row in rows)


def test_values_pass_the_redactor(database):
    database.redact = lambda values: dict.fromkeys(values, "hidden")
    with database.connect() as connection:
        assert connection.scalar("SELECT CAST(:text AS TEXT)", text="a secret") == "hidden"


def test_a_broken_statement_raises_the_error_of_its_driver(database):
    with pytest.raises(database.driver.Error), database.connect() as connection:
        connection.execute("SELECT nothing FROM nowhere")
    with database.connect() as connection:
        assert connection.scalar("SELECT 1") == 1


def test_connections_are_used_again(tmp_path):
    database = open_database(str(tmp_path / "runs.db"))
    with database.connect() as first:
        pass
    with database.connect() as second:
        is_same = second.raw is first.raw
    database.dispose()

    assert is_same
    with pytest.raises(sqlite3.ProgrammingError):
        first.execute("SELECT 1")


def observation_rows(positions: range, value: float | None = 0.5) -> list[dict[str, object]]:
    rest = {"arm": 1, "epoch": 0, "metric": "a\tb\\n\n'\"\u00e9\u2028", "is_bool": True, "label": None}
    return [{"position": position, "value": value, "reason": "\\N", **rest} for position in positions]


@pytest.mark.parametrize("rows", [1, FEWEST_COPIED - 1, FEWEST_COPIED, FEWEST_COPIED + 1])
def test_rows_are_stored_as_they_are_by_whichever_statement(database, rows):
    """A row with NULL among others, escapes of COPY, and integers where the column has floats."""
    inserted = [*observation_rows(range(rows - 1), 2), *observation_rows(range(rows - 1, rows), None)]
    with database.begin() as connection:
        assert connection.insert(schema.observations, inserted) == rows

    with database.connect() as connection:
        stored = list(connection.named_rows("SELECT * FROM observations ORDER BY position"))
    assert stored == inserted


def test_a_float_for_an_integer_is_converted_as_an_assignment_does(database):
    with database.begin() as connection:
        row = {"arm": 1, "epoch": 0, "skipped": False}
        rows = [{"position": k, "input_tokens": None if k == 2 else float(k), **row} for k in range(FEWEST_COPIED)]
        assert connection.insert(schema.replies, rows) == FEWEST_COPIED

        query = "SELECT input_tokens FROM replies ORDER BY position"
        assert list(connection.scalars(query)) == [0, 1, None, *range(3, FEWEST_COPIED)]


def test_the_first_of_equal_rows_stays_and_the_others_of_a_copy_are_stored(database):
    overlap = FEWEST_COPIED // 2
    with database.begin() as connection:
        assert connection.insert(schema.observations, observation_rows(range(overlap), 0.25)) == overlap
    with database.begin() as connection:
        rows = observation_rows(range(2 * FEWEST_COPIED), 0.75)
        assert connection.insert(schema.observations, rows) == 2 * FEWEST_COPIED - overlap
        # The transaction goes on after a copy that was taken back.
        assert connection.insert(schema.observations, rows + rows) == 0

    with database.connect() as connection:
        values = list(connection.scalars("SELECT value FROM observations ORDER BY position"))
    assert values == [0.25] * overlap + [0.75] * (2 * FEWEST_COPIED - overlap)


def test_rows_that_replace_others_are_counted_with_the_new_ones(database):
    with database.begin() as connection:
        connection.insert(schema.reply_cache, [cached_row(f"{k:03}") for k in range(FEWEST_COPIED)])
        more = [cached_row(f"{k:03}", "v2") for k in range(2 * FEWEST_COPIED)]

        assert connection.insert(schema.reply_cache, more, over=True) == 2 * FEWEST_COPIED
        assert set(connection.scalars("SELECT identity FROM reply_cache")) == {"v2"}


def test_a_text_that_is_too_long_for_its_column_is_refused_not_cut(database):
    if database.is_sqlite:
        pytest.skip("SQLite has no lengths")
    for count in (1, FEWEST_COPIED):
        rows = [{**row, "metric": "m" * 201} for row in observation_rows(range(count))]
        with pytest.raises(database.driver.errors.StringDataRightTruncation), database.begin() as connection:
            connection.insert(schema.observations, rows)


def test_numbers_that_the_database_assigns_are_assigned_in_a_copy(database):
    row = {"run": "r", "experiment": "", "arm": "", "sample": "", "epoch": 0, "name": "n", "at": 0.0}
    with database.begin() as connection:
        for _ in range(2):
            assert connection.insert(schema.events, [row] * FEWEST_COPIED) == FEWEST_COPIED

        assert len(set(connection.scalars("SELECT id FROM events"))) == 2 * FEWEST_COPIED


@pytest.mark.parametrize("rows", [1, FEWEST_COPIED])
def test_more_rows_are_numbered_than_an_integer_of_32_bits_can_count(database, rows):
    row = {"run": "r", "experiment": "", "arm": "", "sample": "", "epoch": 0, "name": "n", "at": 0.0}
    with database.begin() as connection:
        connection.insert(schema.events, [{**row, "id": 2**31 + k} for k in range(rows)])

        assert list(connection.scalars("SELECT id FROM events ORDER BY id")) == [2**31 + k for k in range(rows)]


@pytest.mark.parametrize("text", ["a\tb", "a\nb\r", "\\N", "\\", "\\.", "\\x41", "漢\U0001f600"])
def test_signs_of_a_copy_are_text(database, text):
    rows = [{**row, "reason": text} for row in observation_rows(range(FEWEST_COPIED))]
    with database.begin() as connection:
        connection.insert(schema.observations, rows)

        assert {*connection.scalars("SELECT reason FROM observations")} == {text}
