"""The Ray actor of a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.features.scale.executor_options import MODE
from pytest_crucible.features.scale.leases import flush_reports, worker_name
from pytest_crucible.features.scale.worker_session import BlockCall, WorkerError, WorkerOrder, WorkerSession
from pytest_crucible.records import Unit
from pytest_crucible.store.row_batches import encode_rows


class SuiteWorker:
    """Runs the driver's suite on a node. Ray starts it again, on a node that lives, where its process dies."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        import ray

        context = ray.get_runtime_context()
        self._node = order["names"].get(context.get_node_id()) or ray.util.get_node_ip_address()
        self._run = order["run"]
        self._session = WorkerSession(WorkerOrder(**order), self._node)

    def ping(self) -> int:
        """Return the id of the process: it is alive."""
        return os.getpid()

    def plan(self) -> dict[str, Any]:
        """Return the names of the node and of the holder of leases, the node's servers, and what is wrong with the suite."""
        # A driver that has a token is served by a cluster that needs none, too.
        facts = {"node": self._node, "has_token": os.environ.get(MODE) == "token"}
        try:
            self._session.wait_until_planned()
        except WorkerError as error:
            return {**facts, "holder": "", "problem": str(error), "servers": {}}
        servers = self._session.node_servers()
        return {**facts, "holder": worker_name(self._run), "problem": "", "servers": servers}

    def run_block(self, call: Mapping[str, Any], units: Sequence[Sequence[int]]) -> tuple[dict[str, Any], list[Any]]:
        """Return facts and rows of a block that was sent; of one that could not be sent, the `problem`."""
        try:
            block = self._session.run_block(BlockCall(**call), [Unit(*unit) for unit in units])
        except WorkerError as error:
            return {"node": self._node, "problem": str(error)}, []
        flush_reports(self._run)
        facts = {"node": self._node, "holder": worker_name(self._run), "problem": "", **block.facts()}
        facts["cache"] = self._session.pop_tallies()
        return facts, encode_rows(block.tables())

    def end_run(self, run: int) -> tuple[list[str], list[str]]:
        """End an experiment, and return the reports of its scorers, and sentences on listeners that have raised."""
        return self._session.end_run(run)

    def close(self) -> None:
        """End the session."""
        self._session.close()
