"""A run that is killed or interrupted keeps what it has, and goes on from there."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import time

import pytest

SCRIPTS = """
    def answer(request):
        with open("calls.txt", "a") as file:
            file.write(request.sample + chr(10))
        number = int(request.sample[1:])
        return str(2 * number) if number % 3 else "?"

    base = answer
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="many.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.5")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
MANY = 200
SCRIPTED = {"backend": "scripted", "script": "scripts:answer"}
WORKERS = pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])


@pytest.fixture
def slow(suite):
    """Two hundred questions to a model, which takes 50 ms for each."""
    suite.write_rows(
        "many.jsonl", [{"id": f"q{k}", "input": f"{k} + {k}", "expected": str(2 * k)} for k in range(MANY)]
    )
    suite.script(SCRIPTS, others={"scripted": {**SCRIPTED, "latency_s": 0.05}})
    suite.test(TEST)
    return suite


def count_stored(suite):
    with contextlib.closing(sqlite3.connect(suite.path / ".crucible/crucible.db")) as connection:
        return connection.execute("select count(*) from replies").fetchone()[0]


def cut_short(suite, how, *arguments):
    """Start a run that asks one at a time, wait until it has said so and some answers are stored, and send it a signal.

    A controller says so when it has imported what it needs: a signal among imports may be swallowed by a C extension.
    """
    python, *arguments_of_pytest = suite.pytester._getpytestargs()
    command = [python, "-u", *arguments_of_pytest, "-p", "no:asyncio", "-p", "no:hypothesispytest", *arguments]
    command += ["--crucible-adapter=scripted", "--crucible-concurrency=1"]
    path = suite.path / "shown.txt"
    with path.open("wb") as screen:
        process = suite.pytester.popen(command, stdin=subprocess.PIPE, stdout=screen, start_new_session=True)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            time.sleep(0.05)
            with contextlib.suppress(sqlite3.Error):
                if count_stored(suite) > 5 and "crucible: test_sums" in path.read_text():
                    break
        os.killpg(process.pid, how)  # as a terminal does
        process.communicate(timeout=60)
    suite.adapters({"scripted": SCRIPTED})  # the same model, and fast from now on
    return process.returncode, path.read_text()


def without_times(document):
    (experiment,) = document["experiments"]
    return experiment["estimates"], experiment["verdicts"], experiment["dataset"], document["exit_status"]


@WORKERS
def test_a_killed_run_is_resumed_with_only_what_is_missing(slow, workers):
    cut_short(slow, signal.SIGKILL, *workers)
    stored = count_stored(slow)
    assert 5 < stored < MANY
    # The store is written twice a second: 20 replies a second can be on their way, and a kill loses no more.
    assert len(slow.calls()) - stored <= 20
    slow.forget_calls()

    resumed = slow.json("--crucible-adapter=scripted", "--crucible-resume", *workers)
    assert len(slow.calls()) == MANY - stored

    unresumed = slow.json("--crucible-adapter=scripted")
    assert without_times(resumed) == without_times(unresumed)


@pytest.mark.slow
@WORKERS
def test_an_interrupted_run_keeps_its_answers_and_decides_nothing(slow, workers):
    status, out = cut_short(slow, signal.SIGINT, *workers)

    assert status == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in out
    assert "undecided" in out
    assert "sampling was interrupted; continue with --crucible-resume" in out
    assert f"test_sums: scripted: {MANY - count_stored(slow)} samples lost (not run)" in out
    stored = count_stored(slow)
    assert 5 < stored < MANY
    slow.forget_calls()

    result = slow.run("--crucible-adapter=scripted", "--crucible-resume")
    assert result.ret == 0
    assert len(slow.calls()) == MANY - stored
    (events,) = [line for line in result.stdout.lines if "replies reused from run" in line]
    assert re.fullmatch(rf"test_sums: scripted: {stored} of {MANY} replies reused from run [0-9a-f]{{12}}", events)


@WORKERS
def test_resuming_a_finished_run_sends_nothing_and_has_the_same_results(slow, workers):
    first = slow.json("--crucible-adapter=scripted", *workers)
    slow.forget_calls()

    again = slow.json("--crucible-adapter=scripted", "--crucible-resume", *workers)

    assert slow.calls() == []
    assert without_times(again) == without_times(first)
