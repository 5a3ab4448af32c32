"""The rows of finished blocks on a worker, until they are in a part that the driver has entered in its manifest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.scale.worker_session import WorkerError
from pytest_crucible.records.errors import CrucibleError, StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.part_writer import PartWriter
from pytest_crucible.store.parts import ResultsFolder, manifest_rows, probe_path
from pytest_crucible.store.row_batch import KEYED
from pytest_crucible.store.row_batches import encode_rows
from pytest_crucible.store.spill_file import Rows

if TYPE_CHECKING:
    import pyarrow as pa

_OUTCOME = ("arm", "position", "epoch", "failure", "skipped", "detail")
"""The columns of a reply that a driver needs where it counts units."""


class HeldBlocks:
    """Holds blocks, and writes those that the driver names. For any thread."""

    def __init__(self, results: ResultsFolder, run: str) -> None:
        self._writer = PartWriter(results, run)
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._blocks: dict[tuple[int, int], list[pa.RecordBatch]] = {}
        """By run of an experiment, and number: a late block of an earlier run must not count as one of this run."""

    def hold(self, run: int, number: int, tables: Sequence[Rows]) -> int:
        """Hold the rows of a block, and return their bytes."""
        batches = encode_rows([rows for rows in tables if rows[0] not in KEYED])
        with self._lock:
            self._blocks[run, number] = batches
        return sum(batch.nbytes for batch in batches)

    def write(
        self, run: int, numbers: Sequence[int], *, is_entered: bool, is_last: bool
    ) -> tuple[dict[str, Any], list[Any]]:
        """Write blocks as parts; return those that are here, the parts, and batches of rows for the run store.

        `is_entered` is False where the parts of the last call are not in the manifest. Parts that cannot be written are a
        `problem`, and all rows are for the run store then.
        """
        with self._lock:
            blocks = {number: self._blocks.pop((run, number)) for number in numbers if (run, number) in self._blocks}
        batches = [batch for block in blocks.values() for batch in block]
        answer: dict[str, Any] = {"numbers": [*blocks], "problem": "", "parts": [], "replaced": []}
        with self._writing:
            if not is_entered:
                self._writer.forget()
            try:
                delivery = self._writer.write(batches, is_last=is_last)
            except StoreError as error:
                return {**answer, "problem": str(error)}, batches
        return {**answer, "parts": manifest_rows(delivery.parts), "replaced": delivery.replaced}, [*delivery.rest]

    def end_run(self, run: int) -> None:
        """Forget the blocks of a run of an experiment, and of earlier ones."""
        with self._lock:
            self._blocks = {key: batches for key, batches in self._blocks.items() if key[0] > run}
        with self._writing:
            self._writer.forget()


def open_held_blocks(root: str, probe: str, run: str, node: str) -> HeldBlocks:
    """Return the held blocks of a worker. Raises WorkerError unless its node can write into the driver's results.

    `probe` is a file of the driver there: a directory that is not mounted is another one.
    """
    try:
        results = ResultsFolder(root)
        if not results.has(probe):
            raise WorkerError(f"{node} does not have the files of crucible_results = {root!r}: mount it there")
        # It goes with the run's other files that no manifest has.
        results.put(probe_path(run), memoryview(b""))
    except CrucibleError as error:
        raise WorkerError(f"{node}: {error}") from error
    return HeldBlocks(results, run)


def outcome_rows(tables: Sequence[Rows], *, with_calls: bool) -> list[Rows]:
    """Return the rows of a block that go to the driver although they are in a part, and those of tables without parts."""
    complete = {*KEYED, schema.lost, *([schema.calls] if with_calls else [])}
    # Cached replies refer to their texts.
    complete |= {schema.texts} if any(table in KEYED for table, _, _ in tables) else set()
    selected = [
        (table, overwrite, _odd_replies(rows) if table is schema.replies else rows)
        for table, overwrite, rows in tables
        if table in complete or table is schema.replies
    ]
    return selected if schema.texts in complete or not with_calls else [*_parameters(tables), *selected]


def _parameters(tables: Sequence[Rows]) -> list[Rows]:
    """Return the texts of long parameters, such as the schemas of tools."""
    keys = {row.get("parameters_id") for table, _, rows in tables if table is schema.calls for row in rows}
    of_texts = (rows for table, _, rows in tables if table is schema.texts)
    texts = [row for rows in of_texts for row in rows if row["id"] in keys]
    return [(schema.texts, False, texts)] if texts else []


def _odd_replies(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return what a driver counts of replies that are not plain answers."""
    return [{name: row[name] for name in _OUTCOME} for row in rows if row["failure"] or row["skipped"]]


def stored_rows(tables: Sequence[Rows]) -> list[Rows]:
    """Return those of `outcome_rows` that a run store has beside parts: cached replies and their texts."""
    return [rows for rows in tables if rows[0] in KEYED or rows[0] is schema.texts]
