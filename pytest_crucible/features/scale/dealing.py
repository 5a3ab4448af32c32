"""Deals blocks to workers, and stores what they send back: the first result of each block."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_crucible.features.scale.block_results import read_results
from pytest_crucible.features.scale.blocks import BLOCK_SAMPLES, LOOK_SAMPLES, Block, BlockQueue
from pytest_crucible.features.scale.cluster import Worker
from pytest_crucible.features.scale.leases import forget_worker
from pytest_crucible.features.scale.run_watch import ClusterLost, RunWatch, result_of
from pytest_crucible.features.scale.tables import blocks
from pytest_crucible.features.scale.worker_session import BlockCall
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.session.experiment import SentRound
from pytest_crucible.store.row_batches import decode_rows

WINDOW = 3
"""Blocks that a worker has at a time: one more than it sends, so that it never waits for the driver."""
GONE_S = 300.0
"""Seconds without any worker after which a run is given up: one that is started again has to plan the suite."""


class WorkerProblem(CrucibleError):
    """A worker that cannot send the suite, such as one without a fixture."""


class Dealing:
    """Deals the blocks of an experiment, round after round."""

    def __init__(
        self, run: str, workers: Sequence[Worker], seed: int, add_tallies: Callable[[Sequence[Any]], None]
    ) -> None:
        """`add_tallies` counts what the reply cache has answered for the units of a block."""
        self._run, self._workers, self._seed, self._add_tallies = run, workers, seed, add_tallies
        self._last_number = 0

    async def send(self, sent: SentRound, call: Callable[[], BlockCall], *, in_order: bool) -> None:
        """Send all units of a round. Raises CrucibleError where no worker can, and what keeping a result raises.

        `in_order` is for runs that look at the first samples before the last ones are sent.
        """
        queue = BlockQueue(
            sent.units,
            round=sent.number,
            first=self._last_number + 1,
            choose_among=1 if in_order else 2 * WINDOW * len(self._workers),
            samples=LOOK_SAMPLES if in_order else BLOCK_SAMPLES,
            most_ahead=WINDOW * len(self._workers) if in_order else None,
            seed=f"{self._seed} {sent.experiment.plan.nodeid} {sent.number}",
        )
        try:
            async with RunWatch(self._run, self._workers) as watch:
                await _Round(self._run, self._workers, queue, sent, call, self._add_tallies).run(watch)
        finally:
            self._last_number = queue.last_number


class _Round:
    """The blocks of one round while they are sent."""

    def __init__(
        self,
        run: str,
        workers: Sequence[Worker],
        queue: BlockQueue,
        sent: SentRound,
        call: Callable[[], BlockCall],
        add_tallies: Callable[[Sequence[Any]], None],
    ) -> None:
        self._add_tallies = add_tallies
        self._run, self._workers, self._queue, self._sent, self._call = run, workers, queue, sent, call
        self._tasks: dict[asyncio.Task[Any], tuple[Worker, Block]] = {}
        self._late: dict[asyncio.Task[Any], tuple[Worker, Block]] = {}
        """Blocks of workers that did not answer, and that are dealt again; their results may still come first."""
        self._lived_at = time.monotonic()

    async def run(self, watch: RunWatch) -> None:
        """Send all blocks. Raises what `Dealing.send` raises."""
        try:
            while not self._queue.is_done:
                watch.check()
                self._deal()
                if self._queue.is_done:
                    break
                await self._wait()
        except ConnectionError as error:  # of Ray's client, whose head has died or cannot be reached
            raise ClusterLost(f"the connection to Ray is lost ({error}): continue with --crucible-resume") from None
        finally:
            for task in (*self._tasks, *self._late):
                task.cancel()

    def _deal(self) -> None:
        """Give each worker in turn a block, until all have as many as they may."""
        live, now = [worker for worker in self._workers if not worker.is_lost], time.monotonic()
        self._lived_at = now if live else self._lived_at
        if now - self._lived_at > GONE_S:
            raise ClusterLost(
                f"no worker of the cluster has answered for {GONE_S:.0f} s: see `ray status`, and --crucible-resume"
            )
        for _ in range(0 if self._sent.writer.behind() else WINDOW):
            for worker in live:
                if self._in_flight(worker) < WINDOW and (block := self._queue.pop()) is not None:
                    call = result_of(worker.actor.run_block.remote(asdict(self._call()), block.units))
                    self._tasks[asyncio.ensure_future(call)] = worker, block

    def _in_flight(self, worker: Worker) -> int:
        return sum(other is worker for other, _ in self._tasks.values())

    async def _wait(self) -> None:
        """Wait for results, and return blocks of lost workers to the queue."""
        if tasks := [*self._tasks, *self._late]:
            done, _ = await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await self._finish(task)
        else:
            await asyncio.sleep(0.05)
        for task, (worker, block) in [*self._tasks.items()]:
            if worker.is_lost:
                self._late[task] = self._tasks.pop(task)
                self._queue.put_back(block)

    async def _lose(self, worker: Worker) -> None:
        """Deal nothing to a worker until a process answers again, and return the leases of the one that has died."""
        worker.is_lost, holder, worker.holder = True, worker.holder, ""
        if holder:
            import ray

            # They end by themselves, too, but later.
            with contextlib.suppress(ray.exceptions.RayError):
                await asyncio.to_thread(forget_worker, self._run, holder)

    async def _finish(self, task: asyncio.Task[Any]) -> None:
        import ray

        is_late = task in self._late
        worker, block = (self._late if is_late else self._tasks).pop(task)
        try:
            facts, batches = task.result()
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError):
                raise CrucibleError(f"{worker.name}: {str(error).strip().splitlines()[-1]}") from None
            if not is_late:
                self._queue.put_back(block)
            await self._lose(worker)
            return
        if facts["problem"]:
            raise WorkerProblem(facts["problem"])
        worker.node, worker.holder = facts["node"], facts["holder"]
        if self._queue.store(block):
            self._add_tallies(facts["cache"])
            self._store(worker, block, facts, batches)

    def _store(self, worker: Worker, block: Block, facts: Mapping[str, Any], batches: Sequence[Any]) -> None:
        sent = self._sent
        rows = decode_rows(batches)
        results = read_results(rows, block.units, sent.arms)
        row = {
            "experiment": sent.key,
            "number": block.number,
            "round": block.round,
            "positions": block.positions,
            "node": facts["node"],
            "worker": worker.name,
            "started": facts["started"],
            "finished": facts["finished"],
            "units": len(block.units),
            "lost": facts["lost"],
            "retries": facts["retries"],
            "dealt": block.dealt,
        }
        # Before they are given to the writer: a stored reply that is not used any more is removed first.
        for result in results:
            sent.keep(result)
        sent.writer.add_tables([*rows, (blocks, False, [row])])
        for result in results:
            sent.progress.count(result.outcome)
            sent.watch.see(result.outcome)
