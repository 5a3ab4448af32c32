"""Watches the workers of a run, its actors and Ray's head while blocks are sent."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

from pytest_crucible.features.scale.cluster import Worker, head_address
from pytest_crucible.features.scale.leases import shared_actors
from pytest_crucible.records.errors import CrucibleError

PING_S = 2.0
SILENT_S = 10.0
"""Seconds without an answer after which a worker counts as lost. Ray notices a node that was cut off only after a minute."""
HEAD_S = 20.0
"""Seconds without the head after which a run is given up. Until then it may be started again; Ray ends all after 60."""


RESUME = ", then continue with --crucible-resume"
SHARED_DIED = "the process with the limits or cached replies of this run has died: see the logs of Ray"


class ClusterLost(CrucibleError):
    """A cluster that can send nothing more, in this run and in any later one of the session."""


class RunWatch:
    """Notes which workers answer, and why the cluster is lost. Used on the sampling loop alone."""

    def __init__(self, run: str, workers: Sequence[Worker]) -> None:
        self._run, self._workers = run, workers
        self._tasks: list[asyncio.Task[None]] = []
        self.problem = ""
        """A sentence on a cluster that is lost."""

    async def __aenter__(self) -> RunWatch:
        watches = [
            self._watch_head(),
            *map(self._watch_actor, shared_actors(self._run)),
            *map(self._watch, self._workers),
        ]
        self._tasks = [asyncio.create_task(watch) for watch in watches]
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()

    def check(self) -> None:
        """Raise ClusterLost with the problem, if there is one."""
        if self.problem:
            raise ClusterLost(f"{self.problem}{RESUME}")

    async def _watch(self, worker: Worker) -> None:
        """Note when a worker does not answer, and when it does again."""
        import ray

        while True:
            try:
                await asyncio.wait_for(result_of(worker.actor.ping.remote()), SILENT_S)
                # A new process gets no block before it has planned the suite, and none at all if it has another one.
                if worker.is_lost and not worker.holder:
                    worker.holder = (await result_of(worker.actor.plan.remote()))["holder"]
                worker.is_lost = not worker.holder
            except (ray.exceptions.RayError, TimeoutError, ConnectionError):
                worker.is_lost = True
            await asyncio.sleep(PING_S)

    async def _watch_head(self) -> None:
        """Note that the head of the cluster is gone. Without it actors go on calling each other, for a minute."""
        address = head_address()
        answered = time.monotonic()
        while address is not None and not self.problem:
            with contextlib.suppress(OSError, TimeoutError):
                _, writer = await asyncio.wait_for(asyncio.open_connection(*address), SILENT_S)
                writer.close()
                answered = time.monotonic()
            if time.monotonic() - answered > HEAD_S:
                self.problem = (
                    f"Ray's head at {address[0]}:{address[1]} has not answered for {HEAD_S:.0f} s: start it again"
                )
            await asyncio.sleep(PING_S)

    async def _watch_actor(self, actor: Any) -> None:
        """Note that an actor has ended that all workers need, and whose state is nowhere else."""
        import ray

        while not self.problem:
            try:
                await result_of(actor.ping.remote())
            except ray.exceptions.RayActorError:
                self.problem = SHARED_DIED
            except (ray.exceptions.RayError, ConnectionError):
                return  # the workers' own watches see the same
            await asyncio.sleep(PING_S)


async def result_of(reference: Any) -> Any:
    """Return the result of a call of an actor."""
    return await asyncio.wrap_future(reference.future())
