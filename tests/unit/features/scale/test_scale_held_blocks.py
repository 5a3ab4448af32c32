"""Rows that a worker holds until the driver has their part in its manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from pytest_crucible.features.scale.held_blocks import HeldBlocks, open_held_blocks, outcome_rows, stored_rows
from pytest_crucible.features.scale.worker_session import WorkerError
from pytest_crucible.store import schema
from pytest_crucible.store.parts import ResultsFolder, probe_path
from pytest_crucible.store.row_batches import decode_rows

RUN = "0123456789ab"


@pytest.fixture
def results(tmp_path):
    return ResultsFolder(str(tmp_path / "results"))


@pytest.fixture
def held(results):
    return HeldBlocks(results, RUN)


def reply(position, failure=None):
    row = {"arm": 1, "position": position, "epoch": 0, "text": "yes", "failure": failure, "skipped": False}
    return {**row, "detail": None}


def tables(*positions):
    return [(schema.replies, False, [reply(position) for position in positions])]


def write(held, *numbers, run=1, is_entered=True, is_last=False):
    return held.write(run, numbers, is_entered=is_entered, is_last=is_last)


def test_only_blocks_that_the_driver_names_are_written(held):
    assert held.hold(1, 7, tables(0, 1)) > 0
    held.hold(1, 8, tables(2))

    answer, rest = write(held, 7, 9)

    assert (answer["numbers"], rest) == ([7], [])
    assert [part["row_count"] for part in answer["parts"]] == [2]
    assert write(held, 7, 8)[0]["numbers"] == [8]


def test_a_late_block_of_an_earlier_run_is_not_one_of_this_run(held):
    held.end_run(1)
    held.hold(1, 7, tables(0))

    assert write(held, 7, run=2)[0] == {"numbers": [], "problem": "", "parts": [], "replaced": []}


def test_parts_that_are_not_in_the_manifest_are_not_replaced(held):
    held.hold(1, 1, tables(0))
    write(held, 1)
    held.hold(1, 2, tables(1))

    answer, _ = write(held, 2, is_entered=False, is_last=True)

    assert answer["replaced"] == []
    assert [part["row_count"] for part in answer["parts"]] == [1]


def test_rows_that_cannot_be_written_are_returned_with_the_problem(held, results):
    Path(results.root).write_text("a file")
    held.hold(1, 1, tables(0, 1))

    answer, rest = write(held, 1)

    assert answer["problem"].startswith(f"results in '{results.root}' cannot be written (")
    assert (answer["numbers"], answer["parts"]) == ([1], [])
    [(table, _, rows)] = decode_rows(rest)
    assert (table, [row["position"] for row in rows]) == (schema.replies, [0, 1])


def test_the_driver_gets_what_it_counts_and_what_no_part_has():
    replies = [reply(0), reply(1, "timeout")]
    lost = [{"arm": 1, "position": 2, "epoch": 0, "metric": "", "reason": "error", "detail": None}]
    texts, cached = [{"id": b"k", "body": "long"}], [{"key": "k", "reply": {}}]
    calls = [{"arm": 1, "position": 0, "epoch": 0, "call": 1}]
    block = [
        (schema.texts, False, texts),
        (schema.calls, False, calls),
        (schema.lost, False, lost),
        (schema.observations, False, [{"arm": 1}]),
        (schema.replies, False, replies),
        (schema.reply_cache, False, cached),
    ]

    rows = {table.name: many for table, _, many in outcome_rows(block, with_calls=False)}
    with_calls = {table.name for table, _, _ in outcome_rows(block, with_calls=True)}

    assert rows.keys() == {"texts", "lost", "replies", "reply_cache"}
    assert [(row["position"], row["failure"]) for row in rows["replies"]] == [(1, "timeout")]
    assert with_calls == rows.keys() | {"calls"}
    assert {table.name for table, _, _ in stored_rows(outcome_rows(block, with_calls=True))} == {"texts", "reply_cache"}
    assert "texts" not in {table.name for table, _, _ in outcome_rows(block[:-1], with_calls=False)}


def test_a_node_without_the_drivers_files_is_refused(results):
    with pytest.raises(WorkerError, match=r"gpu-2 does not have the files of crucible_results = '.*': mount it there"):
        open_held_blocks(results.root, probe_path(RUN), RUN, "gpu-2")


def test_a_node_that_cannot_write_there_is_refused(results, monkeypatch):
    probe = probe_path(RUN)
    results.put(probe, memoryview(b""))
    monkeypatch.setattr("os.fsync", refuse_writes)

    with pytest.raises(WorkerError, match=r"gpu-2: results in '.*' cannot be written \(.*Read-only file system.*\)"):
        open_held_blocks(results.root, probe, RUN, "gpu-2")


def refuse_writes(file):
    raise OSError(30, "Read-only file system")


def test_a_node_that_has_the_place_is_not_refused(results):
    probe = probe_path(RUN)
    results.put(probe, memoryview(b""))

    assert isinstance(open_held_blocks(results.root, probe, RUN, "gpu-2"), HeldBlocks)
