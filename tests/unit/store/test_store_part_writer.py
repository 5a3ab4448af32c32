"""Rows that are written as parts where they were made, and joined with later ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.part_manifest import PARTS
from pytest_crucible.store.runs import RunStore

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

from pytest_crucible.store import part_writer
from pytest_crucible.store.part_moves import remove_unentered, restore_rows
from pytest_crucible.store.part_reader import load_parts
from pytest_crucible.store.part_writer import JOINED, PartWriter, enter_parts
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.row_batches import encode_rows

RUN = "0123456789ab"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    on_server = request.param == "postgresql"
    store = RunStore(request.getfixturevalue("postgresql_store") if on_server else str(tmp_path / "crucible.db"))
    begin(store)
    yield store
    store.close()


@pytest.fixture
def results(tmp_path):
    return ResultsFolder(str(tmp_path / "results"))


@pytest.fixture
def writer(results):
    return PartWriter(results, RUN)


def begin(store):
    """Enter a run with one arm, whose key is 1."""
    store.begin_run(RUN, started="2026", seed=0, alpha=0.05, correction="holm", environment={})
    store.insert(schema.experiments, [{"run": RUN, "nodeid": "t", "plan": {}, "finished": True}])
    store.add_arm(1, 0, "v2", "f")


def observation(position, value=1.0):
    return {"arm": 1, "position": position, "epoch": 0, "metric": "exact", "value": value, "is_bool": True}


def block(*positions, value=1.0):
    """Return the batches of a block."""
    return encode_rows([(schema.observations, False, [observation(position, value) for position in positions])])


def stored_positions(store):
    return sorted(store.scalars("SELECT position FROM observations WHERE arm = :arm", arm=1))


def manifest(store):
    with store.connect() as connection:
        return load_parts(connection, frozenset([RUN]))


def files(results):
    return {f"{path.parent.name}/{path.name}" for path in Path(results.root).rglob("*.parquet")}


def enter(store, delivery):
    enter_parts(store, delivery.parts, delivery.replaced)


def test_rows_exist_when_their_part_is_entered(store, writer):
    delivery = writer.write(block(3, 1, 2, value=float("nan")))
    assert stored_positions(store) == []

    enter(store, delivery)

    assert stored_positions(store) == [1, 2, 3]
    assert store.scalar("SELECT COUNT(*) FROM observations WHERE arm = :arm AND value IS NULL", arm=1) == 3


def test_rows_are_entered_in_one_transaction_with_others(store, writer):
    """A value that the database refuses takes all of it back."""
    delivery = writer.write(block(1))
    refused = [{"arm": 1, "position": 1, "epoch": 0, "metric": "exact", "reason": None}]

    with pytest.raises(StoreError):
        enter_parts(store, delivery.parts, delivery.replaced, [(schema.lost, False, refused)])

    assert (stored_positions(store), manifest(store)) == ([], [])


def test_parts_that_are_joined_replace_the_small_ones(store, results, writer):
    for position in range(JOINED):
        enter(store, writer.write(block(position)))
    assert len(manifest(store)) == JOINED

    enter(store, writer.write(block(JOINED)))

    [part] = manifest(store)
    assert (part.row_count, stored_positions(store)) == (JOINED + 1, list(range(JOINED + 1)))
    assert len(files(results)) == JOINED + 1
    remove_unentered(store, results, RUN)
    assert files(results) == {part.path}


def test_many_writes_are_few_parts(store, writer):
    for position in range(200):
        enter(store, writer.write(block(position)))

    assert len(manifest(store)) <= 3 * JOINED
    assert stored_positions(store) == list(range(200))


def test_the_last_write_joins_all_small_parts(store, writer):
    for position in range(5):
        enter(store, writer.write(block(position)))

    enter(store, writer.write([], is_last=True))

    assert [part.row_count for part in manifest(store)] == [5]
    assert writer.write([], is_last=True).parts == []


def test_a_full_part_is_not_written_again(store, writer, monkeypatch):
    monkeypatch.setattr(part_writer, "PART_ROWS", 4)
    for position in range(0, 12, 2):
        enter(store, writer.write(block(position, position + 1)))
    enter(store, writer.write([], is_last=True))

    assert [part.row_count for part in manifest(store)] == [4, 4, 4]


def test_a_part_that_was_not_entered_is_joined_with_no_other(store, writer):
    enter(store, writer.write(block(0)))
    writer.write(block(1))
    writer.forget()

    enter(store, writer.write(block(2), is_last=True))

    assert stored_positions(store) == [0, 2]


def test_after_an_error_the_earlier_parts_are_joined_as_before(store, results, writer):
    enter(store, writer.write(block(0)))
    folder, hidden = Path(results.root), Path(results.root).with_name("hidden")
    folder.rename(hidden)
    folder.write_text("a file")
    with pytest.raises(StoreError, match=r"results in .* cannot be written"):
        writer.write(block(1), is_last=True)
    folder.unlink()
    hidden.rename(folder)

    enter(store, writer.write(block(1), is_last=True))

    assert [part.row_count for part in manifest(store)] == [2]


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), max_size=40))
@settings(max_examples=30, deadline=None)
def test_every_entered_row_is_read_once_whatever_is_not_entered(tmp_path_factory, writes):
    folder = tmp_path_factory.mktemp("parts")
    store, results = RunStore(str(folder / "crucible.db")), ResultsFolder(str(folder / "results"))
    begin(store)
    writer, position, expected = PartWriter(results, RUN), 0, []
    for rows, is_entered, is_last in writes:
        positions = list(range(position, position := position + rows))
        delivery = writer.write(block(*positions), is_last=is_last)
        if is_entered:
            enter(store, delivery)
            expected += positions
        else:
            writer.forget()

    assert stored_positions(store) == expected
    store.close()


def test_rows_that_replace_others_and_odd_values_are_left_for_the_store(writer):
    odd = encode_rows([(schema.observations, False, [observation(1, value="x")])])
    cached = encode_rows([(schema.reply_cache, True, [{"key": "k", "reply": {}}])])

    delivery = writer.write([*odd, *cached, *block(2)])

    assert delivery.rest == [*odd, *cached]
    assert [part.row_count for part in delivery.parts] == [1]


def event(at):
    row = {"run": RUN, "experiment": "t", "arm": "v2", "sample": "s", "epoch": 0, "name": "request.stop"}
    return {**row, "at": at, "facts": {"model": "m"}}


def test_events_of_two_workers_are_restored_with_numbers_of_their_own(store, results, monkeypatch):
    """Both have written them in the same microseconds."""
    monkeypatch.setattr(part_writer.time, "time_ns", lambda: 10**18)
    for number in range(2):
        rows = [event(random.Random(number).random()) for _ in range(3)]
        enter(store, PartWriter(results, RUN).write(encode_rows([(schema.events, False, rows)])))

    with store.begin() as connection:
        restore_rows(connection, RUN)

    assert store.scalar("SELECT COUNT(*) FROM events WHERE run = :run", run=RUN) == 6
    assert store.scalar("SELECT COUNT(DISTINCT id) FROM events WHERE run = :run", run=RUN) == 6
    assert store.scalar(f"SELECT COUNT(*) FROM {PARTS.name}") == 0
