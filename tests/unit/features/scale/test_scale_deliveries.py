"""Blocks whose parts are entered: each unit once, whichever workers die, answer late, or write what others have written."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
pytest.importorskip("ray")

from ray.exceptions import RayActorError

from pytest_crucible.features.scale import deliveries
from pytest_crucible.features.scale.blocks import BlockQueue
from pytest_crucible.features.scale.cluster import Worker
from pytest_crucible.features.scale.dealing import _Round
from pytest_crucible.features.scale.held_blocks import HeldBlocks, outcome_rows
from pytest_crucible.records import Unit
from pytest_crucible.sample.engine import Progress, Watch
from pytest_crucible.store import schema
from pytest_crucible.store.part_writer import enter_parts
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.row_batches import encode_rows
from pytest_crucible.store.runs import RunStore

RUN, SAMPLES = "0123456789ab", 600


class Process:
    """A worker's process, with real held blocks, whose calls are answered as they are drawn."""

    def __init__(self, worker, results, draw, fates, wait):
        self.worker, self._results, self._draw, self._fates, self._wait = worker, results, draw, fates, wait
        self._held = HeldBlocks(results, RUN)
        self.run_block, self.write_parts = Method(self, self._run_block), Method(self, self._write_parts)

    def answer(self, call):
        """Return a future: of the answer, of one that comes when the worker counts as lost, or of its death."""
        loop, future = asyncio.get_running_loop(), Future()
        fate = self._draw.choices([*self._fates], [*self._fates.values()])[0]
        result = call() if fate != "dies" else None
        if fate in ("answers", "late"):
            loop.call_later(self._wait if fate == "answers" else 0.03, answer, future, result)
        if fate == "late":
            loop.call_later(0.005, setattr, self.worker, "is_lost", True)
        if fate.startswith("dies"):
            self._held = HeldBlocks(self._results, RUN)
            loop.call_later(self._wait, future.set_exception, RayActorError())
        return future

    def _run_block(self, call, units, number):
        replies = [
            {"arm": 1, "position": unit.position, "epoch": 0, "failure": None, "skipped": False, "detail": None}
            for unit in units
        ]
        tables = [(schema.replies, False, replies)]
        facts = {"node": "n", "holder": "", "problem": "", "started": 0.0, "finished": 1.0, "lost": 0, "retries": 0}
        facts |= {"cache": [], "bytes": self._held.hold(call["run"], number, tables)}
        return facts, encode_rows(outcome_rows(tables, with_calls=False))

    def _write_parts(self, run, numbers, *, is_entered, is_last):
        return self._held.write(run, numbers, is_entered=is_entered, is_last=is_last)


def answer(future, result):
    if not future.cancelled():
        future.set_result(result)


class Method:
    def __init__(self, process, function):
        self._process, self._function = process, function

    def remote(self, *arguments, **options):
        future = self._process.answer(lambda: self._function(*arguments, **options))
        return SimpleNamespace(future=lambda: future)


class Call(SimpleNamespace):
    run = 1


async def run_round(session):
    """Run a round, whose lost workers answer again after a while."""

    async def revive():
        while True:
            lost = [worker for worker in session.workers if worker.is_lost]
            await asyncio.sleep(0.04)
            for worker in lost:
                worker.is_lost = False

    reviving = asyncio.create_task(revive())
    await session.round.run()
    reviving.cancel()


@pytest.fixture
def store(tmp_path):
    """A store with a run of one arm, whose key is 1."""
    store = RunStore(str(tmp_path / "crucible.db"))
    store.begin_run(RUN, started="2026", seed=0, alpha=0.05, correction="holm", environment={})
    store.insert(schema.experiments, [{"run": RUN, "nodeid": "t", "plan": {}, "finished": True}])
    store.add_arm(1, 0, "v2", "f")
    yield store
    store.close()


class Session:
    """A round of three workers, and what its driver has kept."""

    def __init__(self, store, folder, monkeypatch, draw, fates, *, wait=0.0):
        monkeypatch.setattr("pytest_crucible.features.scale.dealing.asdict", lambda call: {"run": call.run})
        results, self.units = ResultsFolder(str(folder / "results")), []
        self.workers = [Worker(number, None) for number in range(3)]
        for worker in self.workers:
            worker.actor = Process(worker, results, draw, fates, wait)
        self.progress = Progress(total=SAMPLES)
        sent = SimpleNamespace(
            arms=[[1]],
            key=1,
            keep=lambda result: self.units.append(result.outcome.unit),
            progress=self.progress,
            watch=Watch(("v2",), [SAMPLES], [False]),
            writer=SimpleNamespace(behind=lambda: False),
        )
        plugin = SimpleNamespace(enter=lambda *arguments: enter_parts(store, *arguments))
        units = iter([Unit(position, 0, 0, 0) for position in range(SAMPLES)])
        queue = BlockQueue(units, round=0, first=1, choose_among=6, seed="0", samples=10)
        self.round = _Round(RUN, self.workers, queue, sent, Call, lambda tallies: None, plugin)


def stored_positions(store):
    return sorted(store.scalars("SELECT position FROM replies WHERE arm = :arm", arm=1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_each_unit_is_in_the_manifest_once(store, tmp_path, monkeypatch, seed):
    monkeypatch.setattr(deliveries, "WRITE_S", 0.01)
    fates = {"answers": 20, "late": 2, "dies": 1, "dies after": 1}
    session = Session(store, tmp_path, monkeypatch, random.Random(seed), fates)

    asyncio.run(run_round(session))

    assert stored_positions(store) == list(range(SAMPLES))
    assert sorted(unit.position for unit in session.units) == list(range(SAMPLES))
    assert session.progress.done == SAMPLES
    assert store.scalar("SELECT COUNT(*) FROM blocks") == SAMPLES / 10


def test_blocks_that_workers_hold_are_entered_when_a_session_is_interrupted(store, tmp_path, monkeypatch):
    """None was due yet."""
    session = Session(store, tmp_path, monkeypatch, random.Random(0), {"answers": 1}, wait=0.02)

    async def interrupt():
        running = asyncio.create_task(session.round.run())
        while session.round._deliveries.is_done:
            await asyncio.sleep(0.01)
        assert stored_positions(store) == []
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(interrupt())

    assert 10 <= len(stored_positions(store)) < SAMPLES
    assert stored_positions(store) == sorted(unit.position for unit in session.units)
