"""A run is verified against the seals of its commits, and against the root in a report."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

ROOT = re.compile(r"[0-9a-f]{64}")
BOTH = ("--crucible-adapter=v2", "--compare=v1", "--crucible-store=runs.db")


@pytest.fixture
def verify(command):
    """`crucible verify` on the latest run: exit status and output."""
    return lambda *arguments: command("verify", "--store=runs.db", *arguments)


def edit(suite, statement):
    with contextlib.closing(sqlite3.connect(suite.path / "runs.db")) as connection, connection:
        assert connection.execute(statement).rowcount


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_the_root_stands_in_every_report(suite, verify, workers):
    reports = [f"--crucible-report={name}" for name in ("r.json", "r.html", "r.md", "r.tex", "r.ipynb")]
    result = suite.run(*workers, "-v", *BOTH, *reports, "--junitxml=r.xml")

    root = json.loads((suite.path / "r.json").read_text())["run"]["root"]
    assert ROOT.fullmatch(root)
    assert any(root in line for line in result.outlines)
    for name in ("r.html", "r.md", "r.tex", "r.ipynb", "r.xml"):
        assert root in (suite.path / name).read_text()
    status, out = verify("--root", root)
    assert (status, root in out) == (0, True)
    # Of two workers one may have had nothing to do.
    assert re.search(f"of {'[23] processes' if workers else '1 process'}, as they were written", out)


def test_one_changed_character_is_named(suite, verify):
    suite.run(*BOTH)
    edit(suite, "UPDATE replies SET text = text || ' ' WHERE arm = 1 AND position = 6")

    status, out = verify()

    assert status == 1
    assert re.fullmatch(
        r"run \w{12}: replies: test_sums.py::test_sums, arm v2, sample q06, repeat 0 was changed after it was written\n",
        out,
    )


def test_a_changed_root_is_seen(suite, verify):
    suite.run(*BOTH)
    edit(suite, "DELETE FROM verdicts")
    edit(suite, "DELETE FROM seals WHERE number = (SELECT MAX(number) FROM seals)")

    assert verify()[0] == 0
    assert verify("--root=0123456789abcdef")[0] == 1


def test_a_run_of_reused_and_cached_replies_is_as_it_was_written(suite, verify):
    suite.run(*BOTH)
    suite.run(*BOTH, "--crucible-resume")

    assert verify()[0] == 0


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_killed_run_and_the_one_that_resumes_it_are_as_they_were_written(suite, verify, workers):
    suite.script("""
        import time

        def answer(request):
            time.sleep(0.4)
            return "8"
    """)
    arguments = ("--crucible-adapter=scripted", "--crucible-concurrency=1", "--crucible-store=runs.db")
    command = [sys.executable, "-m", "pytest", "-p", "no:asyncio", *workers, *arguments]
    process = suite.pytester.popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and count_replies(suite) < 2:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert 2 <= count_replies(suite) < 20

    assert verify()[0] == 0
    suite.script("def answer(request):\n    return '8'")
    suite.run(*workers, *arguments, "--crucible-resume")
    assert verify()[0] == 0


def count_replies(suite):
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(suite.path / "runs.db")) as connection:
        return connection.execute("SELECT COUNT(*) FROM replies").fetchone()[0]
    return 0


def test_a_run_without_the_feature_cannot_be_verified(suite, verify):
    suite.run(*BOTH, "-p", "no:crucible-provenance")

    status, out = verify()

    assert status == 4
    assert "has no seals: it cannot be verified" in out


def test_a_run_of_an_earlier_format_cannot_be_verified(suite, verify):
    suite.run(*BOTH, "-p", "no:crucible-provenance")
    edit(suite, "UPDATE runs SET format = NULL")
    edit(suite, "UPDATE store_format SET version = 3")

    status, out = verify()

    assert status == 4
    assert re.search(r"run \w{12} was stored in format 3, without seals: it cannot be verified", out)


def test_an_invalid_root_is_refused(suite, verify):
    suite.run(*BOTH)

    status, out = verify("--root=xyz")

    assert status == 4
    assert "--root=xyz: expected at least 8 hexadecimal digits, for example 5be0c2d97f41" in out
