"""Run stores that fail in the middle of a run: the run ends, its replies are kept, and the next run stores them."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import postgresql_server
import pytest

# Undone at the end: a session in this process would leave all later ones as impatient, and on a busy machine they fail.
IMPATIENT = """
    import functools

    import pytest

    from pytest_crucible.store import opening, runs

    def pytest_configure(config):
        patch = pytest.MonkeyPatch()
        patch.setattr(runs, "open_database", functools.partial(opening.open_database, busy_s=0.5))
        config.add_cleanup(patch.undo)
"""
SCRIPTS = """
    import time
    from pathlib import Path

    def answer(request):
        with open("calls.txt", "a") as file:
            file.write(request.sample + chr(10))
        number = int(request.sample[1:])
        if number == 9 and not Path("broken").exists():
            Path("break").touch()
            while not Path("broken").exists():
                time.sleep(0.01)
        return str(2 * number)

    base = answer
"""
TWO = """
    import time

    import pytest

    @pytest.mark.quality_target("right >= 0.70")
    @pytest.mark.parametrize("number", range(20), ids=[f"q{k:02}" for k in range(20)])
    def test_joined(crucible, number):
        reply = crucible.sampler.generate(f"{number} + {number}")
        crucible.score(right=reply.text == str(2 * number))
        if number >= 9:
            time.sleep(1)  # long enough for the store to be given up

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
LAST = """
    import pytest

    @pytest.mark.quality_target("right >= 0.70")
    @pytest.mark.parametrize("number", [0, 9], ids=["q00", "q09"])
    def test_joined(crucible, number):
        crucible.score(right=crucible.sampler.generate("?").text == str(2 * number))
"""
LOCKED = "is locked by another process: wait for it, or name another store with --crucible-store"
SERVER_LOST = "has lost its server: start it again, then resume with --crucible-resume"
GONE = "cannot be reached: start its server, or name another store with --crucible-store"
KEPT = "N rows of this run kept in Y, from where the next run takes them"
WORKERS = pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])


@pytest.fixture
def mortal() -> Iterator[postgresql_server.Server]:
    """A server of this test alone."""
    if reason := postgresql_server.missing():
        pytest.skip(reason)
    with postgresql_server.server() as server:
        yield server


@pytest.fixture
def impatient(suite, monkeypatch):
    """Waits half a second for a database, and keeps what no database takes in a directory of its own."""
    (suite.path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(suite.path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # what it knew of the variable
    suite.pytester.makeconftest(IMPATIENT)
    suite.script(SCRIPTS)
    return suite


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock as another process that never stops writing."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield


@contextlib.contextmanager
def kill_server(server: postgresql_server.Server) -> Iterator[None]:
    server.kill()
    yield
    server.start()


def run_and_break(suite, breaking, *arguments) -> tuple[int, str, str]:
    """Run, and when the tenth question has been asked break the store; until the run is over it stays so."""
    command = [*suite.pytester._getpytestargs(), "-p", "no:asyncio", "-p", "no:hypothesispytest", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = suite.pytester.popen([*command, "--crucible-adapter=scripted"], **pipes)
    until = time.monotonic() + 60
    while not (suite.path / "break").exists() and time.monotonic() < until:
        time.sleep(0.01)
    with breaking:
        (suite.path / "broken").touch()
        began = time.monotonic()
        out, error = process.communicate(timeout=60)
        assert time.monotonic() - began < 20
    assert "INTERNALERROR" not in out.decode()
    assert "Traceback" not in out.decode() + error.decode()
    return process.returncode, out.decode(), error.decode()


def sentences(error: str) -> set[str]:
    """Without what differs: where, how many rows, which file."""
    text = re.sub(r"run store '[^']*'", "run store X", error.replace("ERROR: ", ""))
    text = re.sub(r"\(\d+ rows of this run kept in '[^']*', ", "(N rows of this run kept in Y, ", text)
    return set(text.split("\n")) - {""}


def goes_on(suite, *arguments) -> None:
    """Assert that the next run repeats no answered request and leaves no file behind."""
    answered = suite.calls()
    assert len(answered) >= 10
    assert list(suite.path.rglob("*.unsaved/*.jsonl"))
    result = suite.run("--crucible-adapter=scripted", "--crucible-resume", *arguments)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"test_sums: scripted: {len(answered)} of 20 replies reused from run *"])
    assert sorted(suite.calls()) == [f"q{k:02}" for k in range(20)]
    assert not list(suite.path.rglob("*.unsaved/*"))


@pytest.mark.slow
@WORKERS
def test_a_lock_for_long_ends_the_run_and_the_next_one_has_its_answers(impatient, workers):
    status, _, error = run_and_break(impatient, lock(impatient.path / ".crucible/crucible.db"), *workers)

    assert status == pytest.ExitCode.USAGE_ERROR
    assert sentences(error) == {f"run store X {LOCKED} ({KEPT})"}
    goes_on(impatient)


@pytest.mark.slow
@WORKERS
def test_no_test_sends_further_requests(impatient, workers):
    impatient.test(TWO)

    status, out, error = run_and_break(impatient, lock(impatient.path / ".crucible/crucible.db"), *workers, "-rs")

    assert status == pytest.ExitCode.USAGE_ERROR
    assert all(LOCKED in sentence for sentence in sentences(error))
    assert "not run: run store " in out
    assert len(impatient.calls()) < 40


@pytest.mark.slow
def test_a_lock_after_the_verdicts_takes_none_of_them(impatient):
    impatient.pytester.makeconftest(
        IMPATIENT
        + """
    import sqlite3

    def pytest_runtest_logreport(report):
        if report.nodeid.endswith("exact_match >= 0.70") and not holders:
            holders.append(sqlite3.connect("runs.db", isolation_level=None))
            holders[0].execute("BEGIN IMMEDIATE")

    holders = []
    """
    )
    (impatient.path / "broken").touch()

    result = impatient.run_apart("--crucible-adapter=scripted", "--crucible-store=runs.db")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["exact_match >= 0.70 *1.000 *met, proven (simulated)", f"the exit status of run * is not stored: * {LOCKED}"]
    )
    assert "Traceback" not in result.stderr.str()


@pytest.mark.slow
def test_the_last_rows_of_a_worker_are_not_lost_in_silence(impatient):
    impatient.test(LAST)

    status, _, error = run_and_break(impatient, lock(impatient.path / ".crucible/crucible.db"), "-n2")

    assert status == pytest.ExitCode.USAGE_ERROR
    assert "rows of this run kept in" in error


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_server_that_dies_ends_the_run_and_the_next_one_has_its_answers(mortal, impatient, workers):
    store = f"--crucible-store={mortal.url}"
    status, _, error = run_and_break(impatient, kill_server(mortal), *workers, store)

    assert status == pytest.ExitCode.USAGE_ERROR
    # A connection that is opened now is refused; one that was open has lost its server.
    assert sentences(error) in ({f"run store X {GONE} ({KEPT})"}, {f"run store X {SERVER_LOST} ({KEPT})"})
    goes_on(impatient, store)
