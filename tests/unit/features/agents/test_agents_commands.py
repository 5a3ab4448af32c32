"""Programs end with all that they have started, whatever these do, and what they print is bounded."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.agents import commands
from pytest_crucible.features.agents.commands import Command, PrintedText, check_words, launch, result_of, run_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs of agents need fork")


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "GRACE_S", 0.2)


def run(source: str, folder: Path, *, timeout_s: float | None = 30, **more: Any) -> Any:
    words = [sys.executable, "-c", textwrap.dedent(source)]
    command = Command(words=words, cwd=folder, variables={"PATH": os.environ["PATH"], **more})
    return asyncio.run(run_command(command, timeout_s))


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended.
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_a_program_has_its_exit_status_its_output_and_its_errors(tmp_path):
    result, ended = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)

    assert (result.exit_status, result.output, result.errors, ended) == (3, "out\n", "err\n", "")


def test_a_program_that_is_killed_has_its_signal(tmp_path):
    result, _ = run("import os; os.kill(os.getpid(), 9)", tmp_path)

    assert result.exit_status == -signal.SIGKILL


def test_a_program_reads_an_empty_input_and_runs_in_its_directory(tmp_path):
    result, _ = run("import os, sys; print(sys.stdin.read() == '', os.getcwd())", tmp_path)

    assert result.output == f"True {tmp_path}\n"


def test_a_program_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no program 'no-such-agent' to run"):
        asyncio.run(run_command(Command(words=["no-such-agent"], cwd=tmp_path, variables={}), 1))


def test_a_file_that_is_no_program_is_named(tmp_path):
    (tmp_path / "agent").write_text("not a program")
    (tmp_path / "agent").chmod(0o755)

    with pytest.raises(OSError, match=r"\./agent cannot be started: Exec format error"):
        asyncio.run(run_command(Command(words=["./agent"], cwd=tmp_path, variables={}), 5))


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(NotADirectoryError, match="gone' is not a directory"):
        asyncio.run(run_command(Command(words=["true"], cwd=tmp_path / "gone", variables=dict(os.environ)), 1))


@pytest.mark.parametrize("command", ["python agent.py", [], b"x"])
def test_a_command_that_is_not_a_list_of_words_is_refused(command):
    with pytest.raises(TypeError, match="write a list of words"):
        check_words(command)


def run_out_of_time(source: str, folder: Path) -> Any:
    """Run a program whose time is over as soon as it has printed something."""
    command = Command(words=[sys.executable, "-c", source], cwd=folder, variables=dict(os.environ))

    async def wait() -> Any:
        running = await launch(command)
        async with asyncio.timeout(60):
            while not running.output.text():
                await asyncio.sleep(0.01)
        await running.wait(0.01)
        return result_of(running, command), running.ended

    return asyncio.run(wait())


def test_a_program_whose_time_is_over_gets_sigterm_first(tmp_path):
    result, ended = run_out_of_time(
        "import signal, sys, time; signal.signal(15, lambda *_: (print('saved'), sys.exit(5)));"
        "print('begun', flush=True); time.sleep(60)",
        tmp_path,
    )

    assert (ended, result.output, result.exit_status) == ("timeout", "begun\nsaved\n", 5)


def test_a_program_that_ignores_sigterm_is_killed(tmp_path):
    result, ended = run_out_of_time(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('begun', flush=True); time.sleep(60)", tmp_path
    )

    assert (ended, result.exit_status) == ("timeout", -signal.SIGKILL)
    assert result.seconds < 50


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds processes that left their group")
def test_processes_that_a_program_leaves_in_sessions_of_their_own_end_with_it(tmp_path):
    result, ended = run(
        """
        import os, signal, subprocess, sys, time
        for _ in range(2):
            child = subprocess.Popen(
                [sys.executable, "-c", "import os,time,signal; signal.signal(15, 1); os.fork(); time.sleep(60)"],
                start_new_session=True)
            print(child.pid)
        time.sleep(0.3)
        """,
        tmp_path,
    )

    assert ended == ""
    assert not any(is_alive(int(process)) for process in result.output.split())
    assert result.seconds < 20


def test_a_flood_of_output_neither_blocks_a_program_nor_fills_the_memory(tmp_path):
    result, _ = run("print('begin'); print('x' * 30_000_000); print('end')", tmp_path)

    assert result.output.startswith("begin\nxxx")
    assert result.output.endswith("xxx\nend\n")
    assert len(result.output) < 2 * commands.EACH_END + 100
    assert "bytes left out" in result.output


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds processes that left their group")
def test_programs_end_when_the_process_that_runs_them_is_killed(tmp_path):
    source = f"""
        import asyncio, os, sys
        from pathlib import Path
        from pytest_crucible.features.agents.commands import Command, run_command
        inner = "import os,subprocess,sys; p=subprocess.Popen(['sleep','60'],start_new_session=True);" \\
                "open('pids','w').write(f'{{os.getpid()}} {{p.pid}}'); p.wait()"
        command = Command(words=[sys.executable, "-c", inner], cwd=Path({str(tmp_path)!r}), variables=dict(os.environ))
        asyncio.run(run_command(command, None))
        """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], env=os.environ)
    pids = tmp_path / "pids"
    assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    owner.kill()
    owner.wait()

    assert wait_until(lambda: not any(is_alive(int(process)) for process in pids.read_text().split()))


def test_a_program_ends_with_the_task_that_waits_for_it(tmp_path):
    async def cancel() -> tuple[str, int]:
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        running = await launch(Command(words=words, cwd=tmp_path, variables=dict(os.environ)))
        waiting = asyncio.ensure_future(running.wait(None))
        await asyncio.sleep(0.3)
        waiting.cancel()
        await asyncio.wait((waiting,))
        return running.ended, running.exit_status

    ended, status = asyncio.run(cancel())
    assert ended == "unit"
    assert status in (-signal.SIGTERM, -signal.SIGKILL)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 20))
def test_the_beginning_and_the_end_of_an_output_are_kept(chunks, each_end):
    text, whole = PrintedText(each_end), b"".join(chunks)
    for chunk in chunks:
        text.add(chunk)

    if len(whole) <= 2 * each_end:
        assert text.text() == whole.decode("utf-8", "replace")
    else:
        head, tail = whole[:each_end].decode("utf-8", "replace"), whole[-each_end:].decode("utf-8", "replace")
        assert text.text() == f"{head}\n... {len(whole) - 2 * each_end} bytes left out ...\n{tail}"


def test_seconds_that_are_credited_do_not_count(tmp_path):
    async def wait() -> tuple[str, float]:
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        running = await launch(Command(words=words, cwd=tmp_path, variables=dict(os.environ)))
        # As when the arm has waited for a rate limit, for 2 s.
        credits_s = iter([0.0])
        await running.wait(0.5, lambda: next(credits_s, 2.0))
        return running.ended, running.seconds

    ended, seconds = asyncio.run(wait())
    assert ended == "timeout"
    assert seconds >= 2.5
