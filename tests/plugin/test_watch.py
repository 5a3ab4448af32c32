"""A watcher registers and judges each checkpoint of a training once, also after it was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tinker_archive import save_on_tinker

from pytest_crucible.cli import main
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.server.process import LocalServer
from pytest_crucible.records import RunSummary
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

TEST = """
    import asyncio, pathlib
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl")
    @pytest.mark.quality_target("length >= 0")
    async def test_replies(sample, sampler, score):
        pathlib.Path("begun").touch()
        await asyncio.sleep(1 if pathlib.Path("slow").exists() else 0)
        score(length=len((await sampler.generate(sample.input, max_tokens=2)).text))
"""
WATCH = ("models", "watch", "checkpoints", "--model", "claims", "--once", "--", "-q", "test_replies.py")


@pytest.fixture
def training(suite, monkeypatch) -> Any:
    """A suite, and a function that writes a checkpoint as a training does."""
    monkeypatch.chdir(suite.path)
    suite.test(TEST, name="test_replies")
    # Only this file of the suite is run, so that it has to be the gate.
    main(["models", "gate", "freeze", "claims", "test_replies.py"])
    engine = Engine.load_packaged()

    def save(name: str, seed: int) -> Path:
        place = suite.path / "checkpoints" / name
        place.mkdir(parents=True)
        engine.trainer(LoraSpec(rank=4, seed=seed)).save_sampler(place)
        (file,) = place.glob("*.safetensors")
        return file

    return save


def finished_runs(path: Path) -> list[RunSummary]:
    with closing(RunStore(str(path / ".crucible" / "crucible.db"))) as store:
        return [run for run in list_runs(store) if run.status == "finished"]


@pytest.mark.slow
def test_each_checkpoint_is_judged_once_and_a_half_written_one_later(training, suite, capfd):
    training("000001", 1)
    second = training("000002", 2)
    whole = second.read_bytes()
    second.write_bytes(whole[: len(whole) // 2])

    assert main(WATCH) == 0
    assert [run.arms for run in finished_runs(suite.path)] == [("claims@1",)]
    printed = capfd.readouterr()
    assert "claims@1 is candidate, was draft" in printed.out
    assert "000002 cannot be read and is tried again later" in printed.err

    second.write_bytes(whole)
    assert main(WATCH) == main(WATCH) == 0
    assert [run.arms for run in finished_runs(suite.path)] == [("claims@2",), ("claims@1",)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_watcher_judges_each_checkpoint_exactly_once(training, suite):
    training("000001", 1)
    (suite.path / "slow").touch()
    watcher = subprocess.Popen([sys.executable, "-m", "pytest_crucible", *WATCH], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (suite.path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    watcher.send_signal(signal.SIGKILL)
    watcher.wait()

    # Its run goes on, and this one waits for its end.
    assert main(WATCH) == 0
    assert [run.arms for run in finished_runs(suite.path)] == [("claims@1",)]


@pytest.mark.slow
def test_a_service_that_is_gone_and_a_cookbooks_file(training, suite, capfd):
    pytest.importorskip("tinker")
    rows = [{"name": "000010", "sampler_path": "tinker://gone/sampler_weights/000010"}, {"state_path": "tinker://x"}]
    (suite.path / "checkpoints.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + '{"name": "0000')
    assert main(("models", "watch", "checkpoints.jsonl", "--model", "claims", "--once")) == 1
    assert "tinker://gone/sampler_weights/000010 cannot be read" in capfd.readouterr().err
    assert finished_runs(suite.path) == []

    save_on_tinker(suite.path / ".crucible" / "tinker", "000010", 1, steps=12)
    assert main(("models", "watch", "tinker://run-1", *WATCH[3:])) == 0
    assert "claims@1 is candidate, was draft (12 optimiser steps)" in capfd.readouterr().out
    assert main(("models", "list", "--log")) == 0
    assert "12 optimiser steps" in capfd.readouterr().out
    assert [run.arms for run in finished_runs(suite.path)] == [("claims@1",)]
    capfd.readouterr()
    assert main(("models", "watch", "nowhere", "--model", "claims", "--once")) == 4
    assert "nowhere does not exist: name a directory" in capfd.readouterr().err


@pytest.mark.slow
def test_a_run_that_lost_samples_judges_nothing_until_two_in_turn_lose_the_same(training, suite, capfd):
    training("000001", 1)
    suite.test(
        """
        import pathlib, pytest

        @pytest.mark.crucible(dataset="questions.jsonl")
        @pytest.mark.quality_target("length >= 0")
        async def test_replies(sample, sampler, score):
            reply = await sampler.generate(sample.input, max_tokens=2)
            if sample.id in pathlib.Path("lost.txt").read_text():
                raise OSError("the disk is full")
            score(length=len(reply.text))
        """,
        name="test_replies",
    )
    (suite.path / "lost.txt").write_text("q01 q02")
    assert main(WATCH) == 1
    [first] = finished_runs(suite.path)
    lost = f"crucible models watch: run {first.id} of claims@1 lost 2 replies: it is judged again at the next look"
    assert lost in capfd.readouterr().err

    # Another sample is lost now: what happens in the world is not over.
    (suite.path / "lost.txt").write_text("q02")
    assert main(WATCH) == 1
    assert "claims@1 lost 1 reply" in capfd.readouterr().err

    # Nor is this one obtained by a third run, which would not be the last one.
    assert main(WATCH) == 0
    assert main(WATCH) == 0
    assert len(finished_runs(suite.path)) == 3
    assert "claims@1 (optimiser steps unknown) is judged by run" in capfd.readouterr().out


@pytest.mark.slow  # a service that was there is waited for
@pytest.mark.parametrize("hook", ["pytest_crucible_observed(sample)", "pytest_collection_modifyitems(items)"])
def test_a_service_that_is_killed_in_a_run_leaves_the_checkpoint_to_be_judged_later(
    training, suite, capfd, monkeypatch, tmp_path, hook
):
    """While it samples, and before pytest has opened the adapter, which then is a usage error."""
    pytest.importorskip("tinker")
    folder = tmp_path / "service"
    save_on_tinker(folder, "000010", 1)
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_tinker = hosted\n")
    watch = ("models", "watch", "tinker://run-1", *WATCH[3:], "--crucible-concurrency=4")
    with serve(folder, monkeypatch) as server:
        (suite.path / "conftest.py").write_text(KILL.format(pid=server.process.pid, hook=hook))
        assert main(watch) == 1
    # No run is begun while the service is gone.
    assert main(watch) == 1
    assert finished_runs(suite.path) == []
    printed = capfd.readouterr()
    assert "the run of claims@1 broke: it is judged again at the next look" in printed.err
    assert "crucible models watch: Tinker at http://127.0.0.1" in printed.err
    (suite.path / "conftest.py").unlink()
    with serve(folder, monkeypatch):
        assert main(watch) == main(watch) == 0
    assert [run.arms for run in finished_runs(suite.path)] == [("claims@1",)]
    assert "claims@1 is candidate, was draft" in capfd.readouterr().out


KILL = """
import os, signal
from pytest_crucible.backends import circuit_breaker

def {hook}:
    if "items" in locals() or sample == "q08":
        # Only here, in the run's own process: `crucible models watch` imports this file into the process of the tests, too.
        circuit_breaker.MAX_SILENCE_S = 3.0  # long enough for no restart
        os.kill({pid}, signal.SIGKILL)
"""


@contextmanager
def serve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    with LocalServer.start(folder) as server:
        monkeypatch.setenv("TINKER_BASE_URL", server.url)
        monkeypatch.setenv("TINKER_API_KEY", server.key)
        yield server
