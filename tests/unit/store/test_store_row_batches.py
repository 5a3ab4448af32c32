"""Rows of the run store as Arrow record batches."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.row_batch import RowBatch
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.spill_file import written_tables
from pytest_crucible.store.texts import stored_text

pa = pytest.importorskip("pyarrow")

from pytest_crucible.store.row_batches import decode_rows, encode_rows  # noqa: E402

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=5,
)
VALUES = {
    # A server may count half tokens, and a fact may be larger than 64 bits.
    "INTEGER": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(allow_nan=False) | st.integers(),
    "BOOLEAN": st.booleans(),
    "BLOB": st.binary(),
    "JSON": JSON,
}


@st.composite
def rows_of_tables(draw):
    """Rows of some tables, each with some of its columns."""
    tables = draw(st.lists(st.sampled_from(list(written_tables().values())), max_size=3, unique=True))
    return [
        (table, draw(st.booleans()), draw(st.lists(rows_of(draw, table), min_size=1, max_size=4))) for table in tables
    ]


def rows_of(draw, table):
    names = draw(st.lists(st.sampled_from(table.names), min_size=1, unique=True))
    return st.fixed_dictionaries({name: st.none() | VALUES.get(table.type_of(name), TEXTS) for name in names})


@settings(deadline=None)
@given(rows_of_tables())
def test_rows_come_back_as_they_were(rows):
    assert decode_rows(encode_rows(rows)) == [(table, over, many) for table, over, many in rows]


@settings(deadline=None)
@given(rows_of_tables())
def test_rows_come_back_from_the_bytes_of_their_batches(rows):
    batches = []
    for batch in encode_rows(rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        batches += pa.ipc.open_stream(sink.getvalue())

    assert decode_rows(batches) == rows


def test_a_score_that_is_not_a_number_comes_back_as_one():
    row = {"arm": 1, "position": 0, "epoch": 0, "metric": "m", "value": math.nan, "is_bool": False}

    [(_, _, [back])] = decode_rows(encode_rows([(schema.observations, False, [row])]))

    assert math.isnan(back["value"])


def call(position, reasoning):
    row = {"arm": 1, "position": position, "epoch": 0, "call": 1, "member": "", "request": 1, "is_scored": True}
    return {**row, "text": None, "reasoning_id": reasoning or None}


def test_blocks_with_and_without_long_texts_and_reasoning_are_stored_together(tmp_path):
    """A driver commits blocks of several workers at once."""
    texts, reasonings = ["short", "long " * 100, "short", "other " * 100], ["why " * 5, "", "why " * 5, "because"]
    store = RunStore(str(tmp_path / "crucible.db"))
    writer = store.writer()

    for position, (text, reasoning) in enumerate(zip(texts, reasonings, strict=True)):
        block = RowBatch()
        row = {"arm": 1, "position": position, "epoch": 0, "text": text, "failure": None, "skipped": False}
        block.add_tables([(schema.replies, False, [row]), (schema.calls, False, [call(position, reasoning)])])
        writer.add_tables(decode_rows(encode_rows(block.tables())))
    writer.close()

    replies = f"SELECT {stored_text('replies')} FROM replies ORDER BY position"
    assert list(store.scalars(replies)) == texts
    reasons = "SELECT (SELECT body FROM texts WHERE id = reasoning_id) FROM calls ORDER BY position"
    assert list(store.scalars(reasons)) == [reasoning or None for reasoning in reasonings]
    store.close()


def test_tables_without_rows_have_no_batch():
    assert encode_rows([(schema.lost, False, [])]) == []


@pytest.mark.parametrize("name", [b"runs", b"store_key", b"no_such"])
def test_rows_of_a_table_that_runs_do_not_write_are_refused(name):
    batch = pa.RecordBatch.from_pydict({"id": ["a"]}).replace_schema_metadata({b"table": name})

    with pytest.raises(StoreError, match="expected those of a table that a run writes"):
        decode_rows([batch])


@pytest.mark.parametrize("column", [pa.array(["1"]), pa.array([1.5])])
def test_a_column_of_another_type_is_refused(column):
    batch = pa.RecordBatch.from_arrays([column], names=["arm"]).replace_schema_metadata({b"table": b"lost"})

    with pytest.raises(StoreError, match="'lost' has no column 'arm' of type"):
        decode_rows([batch])
