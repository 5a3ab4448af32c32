"""Results of blocks from their rows, as a driver reads them."""

from __future__ import annotations

import json

from pytest_crucible.features.scale.dealing import read_results
from pytest_crucible.features.scale.held_blocks import outcome_rows
from pytest_crucible.records import ModelCall, Outcome, Reply, Sample, Unit
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store import schema
from pytest_crucible.store.row_batch import OutcomeRows, RowBatch
from pytest_crucible.store.spill_file import Rows

UNIT = Unit(0, 0, 0, 0)
TOOLS = {"tools": [{"type": "function", "function": {"name": "read", "description": "Reads a file. " * 40}}]}


def rows_of_a_block() -> list[Rows]:
    """Return what a worker has made of one reply to a call with tools."""
    reply = Reply(text="I read it, as you have asked me to do, and it says nothing that would be of use to anybody.")
    call = ModelCall("why?", False, 1, TOOLS, "", reply, settings=canonical(TOOLS))
    batch, rows = RowBatch(), OutcomeRows(str, lambda: "run", str, stores_texts=True)
    rows.add(batch, Outcome(UNIT, reply=reply, calls=[call], sample=Sample(id="q", input="?")), 7, [], [])
    rows.add_late_rows(batch)
    return batch.tables()


def test_a_driver_knows_the_tools_of_a_call_that_a_worker_has_sent():
    [result] = read_results(rows_of_a_block(), [UNIT], [[7]])

    assert [call["parameters"] for call in result.calls] == [TOOLS]


def test_texts_of_parameters_go_to_the_driver_although_they_are_in_a_part():
    tables = outcome_rows(rows_of_a_block(), with_calls=True)

    assert [row["body"] for table, _, rows in tables if table is schema.texts for row in rows] == [json.dumps(TOOLS)]
    assert [call["parameters"] for call in read_results(tables, [UNIT], [[7]])[0].calls] == [TOOLS]
    assert not any(table is schema.texts for table, _, _ in outcome_rows(rows_of_a_block(), with_calls=False))
