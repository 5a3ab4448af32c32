"""The Ray actor of a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.features.scale.executor_options import MODE
from pytest_crucible.features.scale.held_blocks import HeldBlocks, open_held_blocks, outcome_rows
from pytest_crucible.features.scale.leases import flush_reports, worker_name
from pytest_crucible.features.scale.worker_session import BlockCall, WorkerError, WorkerOrder, WorkerSession
from pytest_crucible.records import Unit
from pytest_crucible.store.row_batches import encode_rows, example_rows


class SuiteWorker:
    """Runs the driver's suite on a node. Ray starts it again, on a node that lives, where its process dies."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        import ray

        context = ray.get_runtime_context()
        self._node = order["names"].get(context.get_node_id()) or ray.util.get_node_ip_address()
        self._run = order["run"]
        self._session = WorkerSession(WorkerOrder(**order), self._node)
        self._results, self._probe = order["results"], order["probe"]
        self._held: HeldBlocks | None = None

    def ping(self) -> int:
        """Return the id of the process: it is alive."""
        return os.getpid()

    def plan(self) -> dict[str, Any]:
        """Return the names of the node and of the holder of leases, the node's servers, and what is wrong with the suite."""
        # A driver that has a token is served by a cluster that needs none, too.
        facts = {"node": self._node, "has_token": os.environ.get(MODE) == "token"}
        try:
            self._session.wait_until_planned()
            if self._results:
                self._held = open_held_blocks(self._results, self._probe, self._run, self._node)
        except WorkerError as error:
            return {**facts, "holder": "", "problem": str(error), "servers": {}}
        servers = self._session.node_servers()
        return {**facts, "holder": worker_name(self._run), "problem": "", "servers": servers, "rows": example_rows()}

    def run_block(
        self, call: Mapping[str, Any], units: Sequence[Sequence[int]], number: int | None = None
    ) -> tuple[dict[str, Any], list[Any]]:
        """Return facts and rows of a block that was sent; of one that could not be sent, the `problem`.

        With a `number`, its rows stay here until `write_parts`, and those that the driver needs are returned.
        """
        try:
            block = self._session.run_block(BlockCall(**call), [Unit(*unit) for unit in units])
        except WorkerError as error:
            return {"node": self._node, "problem": str(error)}, []
        flush_reports(self._run)
        facts = {"node": self._node, "holder": worker_name(self._run), "problem": "", **block.facts()}
        facts["cache"] = self._session.pop_tallies()
        tables = block.tables()
        if number is not None and self._held is not None:
            facts["bytes"] = self._held.hold(call["run"], number, tables)
            tables = outcome_rows(tables, with_calls=call["needs_calls"])
        return facts, encode_rows(tables)

    def write_parts(
        self, run: int, numbers: Sequence[int], *, is_entered: bool, is_last: bool
    ) -> tuple[dict[str, Any], list[Any]]:
        """Return what `HeldBlocks.write` returns."""
        if self._held is None:  # a process that has not planned yet
            return {"numbers": [], "problem": "", "parts": [], "replaced": []}, []
        return self._held.write(run, numbers, is_entered=is_entered, is_last=is_last)

    def end_run(self, run: int) -> tuple[list[str], list[str]]:
        """End an experiment, and return the reports of its scorers, and sentences on listeners that have raised."""
        if self._held is not None:
            self._held.end_run(run)
        return self._session.end_run(run)

    def close(self) -> None:
        """End the session."""
        self._session.close()
