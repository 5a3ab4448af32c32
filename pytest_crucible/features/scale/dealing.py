"""Deals blocks to workers, and stores what they send back: the first result of each block."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.scale.blocks import BLOCK_SAMPLES, LOOK_SAMPLES, Block, BlockQueue
from pytest_crucible.features.scale.cluster import Worker
from pytest_crucible.features.scale.deliveries import Deliveries, HeldBlock
from pytest_crucible.features.scale.held_blocks import stored_rows
from pytest_crucible.features.scale.leases import forget_worker
from pytest_crucible.features.scale.run_watch import RESUME, SHARED_DIED, ClusterLost, RunWatch, result_of
from pytest_crucible.features.scale.tables import blocks
from pytest_crucible.features.scale.worker_session import BlockCall
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.session.experiment import SentRound, StoredResult
from pytest_crucible.store.parts import Part
from pytest_crucible.store.row_batches import decode_rows
from pytest_crucible.store.spill_file import Rows

if TYPE_CHECKING:
    from pytest_crucible.features.scale.results import ResultsPlugin
import json
from collections import defaultdict

from pytest_crucible.records import Lost, Observation, Outcome, Unit
from pytest_crucible.store import schema

WINDOW = 3
"""Blocks that a worker has at a time: one more than it sends, so that it never waits for the driver."""
LAST_WRITES_S = 3.0
"""Seconds for the rows that workers hold when a session is interrupted, which waits for five."""
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

    async def send(
        self, sent: SentRound, call: Callable[[], BlockCall], results: ResultsPlugin | None, *, in_order: bool
    ) -> None:
        """Send all units of a round. Raises CrucibleError where no worker can, and what keeping a result raises.

        With `results`, workers write rows as parts, and keep what they have not written. `in_order` is for runs that look at
        the first samples before the last ones are sent.
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
                await _Round(self._run, self._workers, queue, sent, call, self._add_tallies, results).run(watch)
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
        results: ResultsPlugin | None,
    ) -> None:
        self._add_tallies, self._results = add_tallies, results
        self._deliveries = Deliveries(call().run, workers)
        self._run, self._workers, self._queue, self._sent, self._call = run, workers, queue, sent, call
        self._tasks: dict[asyncio.Task[Any], tuple[Worker, Block]] = {}
        self._late: dict[asyncio.Task[Any], tuple[Worker, Block]] = {}
        """Blocks of workers that did not answer, and that are dealt again; their results may still come first."""
        self._lived_at = time.monotonic()

    async def run(self, watch: RunWatch | None = None) -> None:
        """Send all blocks. Raises what `Dealing.send` raises."""
        try:
            while not self._is_done:
                if watch is not None:
                    watch.check()
                self._deal()
                self._deliveries.begin(is_last=not self._tasks)
                if self._is_done:
                    break
                await self._wait()
        except ConnectionError as error:  # of Ray's client, whose head has died or cannot be reached
            raise ClusterLost(f"the connection to Ray is lost ({error}): continue with --crucible-resume") from None
        except BaseException:
            await self._enter_held()
            raise
        finally:
            self._deliveries.cancel()
            for task in (*self._tasks, *self._late):
                task.cancel()

    @property
    def _is_done(self) -> bool:
        return self._queue.is_done and self._deliveries.is_done

    async def _enter_held(self) -> None:
        """Enter what workers hold when a round ends early: its replies are paid for."""
        with contextlib.suppress(Exception):
            self._deliveries.begin(is_last=True)
            if tasks := self._deliveries.tasks:
                for task in (await asyncio.wait(tasks, timeout=LAST_WRITES_S))[0]:
                    await self._enter(task)

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
                    number = None if self._results is None else block.number
                    call = result_of(worker.actor.run_block.remote(asdict(self._call()), block.units, number))
                    self._tasks[asyncio.ensure_future(call)] = worker, block

    def _in_flight(self, worker: Worker) -> int:
        return sum(other is worker for other, _ in self._tasks.values())

    async def _wait(self) -> None:
        """Wait for results, and return blocks of lost workers to the queue."""
        if tasks := [*self._tasks, *self._late, *self._deliveries.tasks]:
            done, _ = await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await (self._enter(task) if task in self._deliveries.tasks else self._finish(task))
        else:
            await asyncio.sleep(0.05)
        for task, (worker, block) in [*self._tasks.items()]:
            if worker.is_lost:
                self._late[task] = self._tasks.pop(task)
                self._queue.put_back(block)
        for block in self._deliveries.pop_lost():
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
        is_late = task in self._late
        worker, block = (self._late if is_late else self._tasks).pop(task)
        if (answer := await self._answer(worker, task)) is None:
            if not is_late:
                self._queue.put_back(block)
            return
        facts, batches = answer
        if facts["problem"]:
            raise WorkerProblem(facts["problem"])
        worker.node, worker.holder = facts["node"], facts["holder"]
        if "bytes" in facts:
            if not (worker.is_lost or block.is_stored):
                self._deliveries.hold(worker, HeldBlock(block, facts, batches))
            elif not is_late:
                self._queue.put_back(block)
        elif self._queue.store(block):
            self._add_tallies(facts["cache"])
            rows = decode_rows(batches)
            # Before they are given to the writer: a stored reply that is not used any more is removed first.
            results = self._keep(block, rows)
            self._sent.writer.add_tables([*rows, (blocks, False, [self._block_row(worker, block, facts)])])
            self._count(results)

    async def _answer(self, worker: Worker, task: asyncio.Task[Any]) -> tuple[dict[str, Any], list[Any]] | None:
        """Return what a worker has answered; None where its process has died. Raises CrucibleError."""
        import ray

        try:
            answer: tuple[dict[str, Any], list[Any]] = task.result()
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError):
                # A worker may see this before the watch does.
                if isinstance(error.cause, ray.exceptions.RayActorError):
                    raise ClusterLost(f"{SHARED_DIED}{RESUME}") from None
                raise CrucibleError(f"{worker.name}: {str(error).strip().splitlines()[-1]}") from None
            await self._lose(worker)
            return None
        return answer

    async def _enter(self, task: asyncio.Task[Any]) -> None:
        """Enter parts in the manifest, unless a block in them is stored already."""
        write, is_late = self._deliveries.pop(task)
        answer = await self._answer(write.worker, task)
        entered = [] if answer is None else [write.blocks[number] for number in answer[0]["numbers"]]
        is_entered = answer is not None and not any(held.block.is_stored for held in entered)
        if answer is not None and is_entered and (entered or answer[0]["parts"]):
            await self._enter_parts(write.worker, entered, *answer)
        self._deliveries.conclude(write, is_entered=is_entered)
        for held in () if is_late else write.blocks.values():
            self._queue.put_back(held.block)

    async def _enter_parts(
        self, worker: Worker, entered: Sequence[HeldBlock], answer: Mapping[str, Any], batches: Sequence[Any]
    ) -> None:
        assert self._results is not None
        others, results = decode_rows(batches), list[StoredResult]()
        for block, _, counted in entered:
            rows = decode_rows(counted)
            results += self._keep(block, rows)
            others += stored_rows(rows)
        block_rows = [self._block_row(worker, held.block, held.facts) for held in entered]
        parts = [Part(**row) for row in answer["parts"]]
        await asyncio.to_thread(self._results.enter, parts, answer["replaced"], [*others, (blocks, False, block_rows)])
        for block, facts, _ in entered:
            self._queue.store(block)
            self._add_tallies(facts["cache"])
        if answer["problem"]:
            self._results.note(f"{worker.node}: {answer['problem']}")
        self._count(results)

    def _keep(self, block: Block, rows: Sequence[Rows]) -> list[StoredResult]:
        results = read_results(rows, block.units, self._sent.arms)
        for result in results:
            self._sent.keep(result)
        return results

    def _count(self, results: Sequence[StoredResult]) -> None:
        for result in results:
            self._sent.progress.count(result.outcome)
            self._sent.watch.see(result.outcome)

    def _block_row(self, worker: Worker, block: Block, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "experiment": self._sent.key,
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


_Place = tuple[int, int, int]
"""Key of the arm, position, repeat."""


def read_results(tables: Sequence[Rows], units: Sequence[Unit], arms: Sequence[Sequence[int]]) -> list[StoredResult]:
    """Return the results of a block's units, in their order. `arms` are the store's keys by arm and variant."""
    texts = {row["id"]: row["body"] for table, _, rows in tables if table is schema.texts for row in rows}
    by_place: dict[str, dict[_Place, list[Mapping[str, Any]]]] = {}
    for table, _, rows in tables:
        if table.name in _READ:
            gathered: dict[_Place, list[Mapping[str, Any]]] = defaultdict(list)
            by_place[table.name] = gathered
            for row in rows:
                gathered[row["arm"], row["position"], row["epoch"]].append(_with_parameters(row, texts))
    return [_result(unit, (arms[unit.arm][unit.variant], unit.position, unit.repeat), by_place) for unit in units]


def _with_parameters(row: Mapping[str, Any], texts: Mapping[bytes, str]) -> Mapping[str, Any]:
    """Return a row; of a call that refers to the text of its parameters with these."""
    key = row.get("parameters_id")
    return row if key is None or key not in texts else {**row, "parameters": json.loads(texts[key])}


_READ = frozenset(table.name for table in (schema.replies, schema.observations, schema.lost, schema.calls))


def _result(
    unit: Unit, place: _Place, by_place: Mapping[str, Mapping[_Place, list[Mapping[str, Any]]]]
) -> StoredResult:
    replies, observations, lost, calls = (
        by_place.get(table.name, {}).get(place, [])
        for table in (schema.replies, schema.observations, schema.lost, schema.calls)
    )
    losses = [Lost(unit, row["metric"] or None, row["reason"], row["detail"] or "") for row in lost]
    whole = next((loss for loss in losses if loss.metric is None), None)
    reply: Mapping[str, Any] = replies[0] if replies else {}
    outcome = Outcome(
        unit,
        lost=whole.reason if whole else None,
        detail=(whole.detail if whole else reply.get("detail")) or "",
        failure=reply.get("failure"),
        skipped=bool(reply.get("skipped")),
    )
    return StoredResult(outcome, [_observation(unit, row) for row in observations], losses, calls)


def _observation(unit: Unit, row: Mapping[str, Any]) -> Observation:
    value = row["value"] if row["label"] is None else row["label"]
    return Observation(
        unit, row["metric"], bool(value) if row["is_bool"] and value is not None else value, row["reason"] or ""
    )
