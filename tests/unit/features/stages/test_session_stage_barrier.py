"""Workers wait for each other between stages, and never for one that has ended."""

from __future__ import annotations

import threading

import pytest

from pytest_crucible.features.stages.stage_plugin import StageBarrier
from pytest_crucible.store.runs import RunStore


@pytest.fixture
def barrier(tmp_path):
    store = RunStore(str(tmp_path / "runs.db"))
    barrier = StageBarrier(store, "run")
    for worker in ("gw0", "gw1", "gw2"):
        barrier.enter(worker)
    yield barrier
    store.close()


def stop() -> None:
    raise KeyboardInterrupt


def test_a_worker_waits_until_all_others_have_run_the_stage(barrier):
    barrier.leave("gw2")
    passed = threading.Event()

    def wait() -> None:
        barrier.pass_stage("gw0", 0, lambda: None)
        passed.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not passed.wait(0.15)
    barrier.pass_stage("gw1", 0, stop)
    assert passed.wait(60)
    waiting.join()


def test_a_stage_that_was_passed_is_not_the_next_one(barrier):
    barrier.leave("gw1")
    barrier.leave("gw2")
    barrier.pass_stage("gw0", 0, stop)
    barrier.enter("gw3")

    with pytest.raises(KeyboardInterrupt):
        barrier.pass_stage("gw0", 1, stop)
