"""Programs that agents are: each finds its sample's endpoint by its environment, loses the host's keys, and ends with the unit."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from fork_server import INTERPRETER
from openai_server import OpenAIServer

from pytest_crucible.features.agents.commands import RunningCommand
from pytest_crucible.sandbox.program_profile import missing_parts

ECHO = "def answer(request): return request.input[-1]['content']\n"
AGENT = """
import json, os, sys, urllib.request

def ask(text):
    body = json.dumps({"model": "any", "messages": [{"role": "user", "content": text}]}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=20).read())["choices"][0]["message"]["content"]
"""
TEST = """
    import sys
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", limit=4, metrics=["exact_match", "calls"])
    async def test_agent(sample, endpoint):
        result = await endpoint.run([sys.executable, "agent.py", sample.expected])
        assert result.exit_status == 0, result.errors
        return result.output.strip()
"""


def rows(suite: Any, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY position, arm, number")]


def write_agent(suite: Any, source: str) -> None:
    suite.script(ECHO)
    (suite.path / "agent.py").write_text(AGENT + source)


def test_a_program_calls_the_arm_of_its_sample(suite):
    write_agent(suite, "print(ask(sys.argv[1]))\n")
    suite.test(TEST)
    suite.run("--crucible-adapter=scripted", "-v").assert_outcomes(passed=1)

    programs = rows(suite, "agent_programs")
    assert [row["output"].strip() for row in programs] == [json.loads(row["command"])[2] for row in programs]
    assert len({row["output"] for row in programs}) == 4
    assert {(row["exit_status"], row["ended"], row["number"]) for row in programs} == {(0, "", 1)}
    assert [row["number"] for row in rows(suite, "endpoint_calls")] == [1] * 4


def test_a_plain_function_runs_programs_without_await(suite):
    write_agent(suite, "print(ask(sys.argv[1]))\n")
    suite.test(TEST.replace("async def", "def").replace("await ", ""))

    suite.run("--crucible-adapter=scripted").assert_outcomes(passed=1)
    assert len(rows(suite, "agent_programs")) == 4


def test_a_program_gets_none_of_the_hosts_keys_and_a_line_names_them(suite, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789abcdef0123")
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "own")
    monkeypatch.setenv("OPENAI_ORGANIZATION", "org")
    monkeypatch.setenv("TEAM_LINE", "postgresql://me:s3cr3t-pass@host/db")
    monkeypatch.setenv("HARMLESS", "yes")
    write_agent(suite, "ask('x'); print(sorted(os.environ), os.environ['OPENAI_API_KEY'])\n")
    suite.test(TEST)
    result = suite.run("--crucible-adapter=scripted")

    names = rows(suite, "agent_programs")[0]["output"]
    # A client that is given two keys of Anthropic's refuses both.
    for name in ("MY_API_KEY", "AWS_PROFILE", "OPENAI_ORGANIZATION", "TEAM_LINE", "ANTHROPIC_AUTH_TOKEN"):
        assert name not in names
    for name in (
        "HARMLESS",
        "ANTHROPIC_BASE_URL",
        "OPENAI_AGENTS_DISABLE_TRACING",
        "DSPY_CACHEDIR",
        "MSWEA_COST_TRACKING",
        "MSWEA_CONFIGURED",
    ):
        assert name in names
    notes = [line for line in result.stdout.lines if "did not get these variables" in line]
    assert len(notes) == 1
    assert "AWS_PROFILE" in notes[0]
    assert "MY_API_KEY" in notes[0]


def test_what_a_program_prints_is_stored_without_keys(suite):
    write_agent(suite, "ask('x'); print('sk-' + 'a1b2c3d4' * 5)\n")
    suite.test(TEST)
    suite.run("--crucible-adapter=scripted")

    output = rows(suite, "agent_programs")[0]["output"]
    assert "a1b2c3d4" not in output
    assert "hidden" in output


@pytest.fixture
def time_begins(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], bool]], None]:
    """Lets the seconds of programs count from when a condition holds: a slow machine takes some to start them."""
    wait = RunningCommand.wait

    def begin_when(condition: Callable[[], bool]) -> None:
        async def wait_later(self: RunningCommand, *arguments: Any) -> None:
            async with asyncio.timeout(120):
                while not condition():
                    await asyncio.sleep(0.02)
            self._start = time.monotonic()
            await wait(self, *arguments)

        monkeypatch.setattr(RunningCommand, "wait", wait_later)

    return begin_when


def test_a_program_that_is_not_done_in_time_is_a_failure_of_the_arm(suite, time_begins):
    write_agent(suite, "ask('x'); open(f'answered-{os.getpid()}', 'w'); import time; time.sleep(60)\n")
    suite.test(TEST.replace("sample.expected]", "sample.expected], timeout_s=0.5").replace("limit=4", "limit=2"))
    time_begins(lambda: len(list(suite.path.glob("answered-*"))) == 2)
    suite.run("--crucible-adapter=scripted")

    assert {row["ended"] for row in rows(suite, "agent_programs")} == {"timeout"}
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as connection:
        failures = connection.execute("SELECT failure, detail FROM replies").fetchall()
    assert len(failures) == 2
    assert all("had not ended after 0.5 s (timeout_s)" in detail for _, detail in failures)


def test_a_program_whose_server_answers_nothing_loses_its_sample(suite, hanging, time_begins):
    (suite.path / "agent.py").write_text(AGENT + "ask(sys.argv[1])\n")
    suite.adapters({"v1": {"backend": "openai", "base_url": hanging.url, "model": "m"}})
    suite.test(TEST.replace("sample.expected]", "sample.expected], timeout_s=0.5").replace("limit=4", "limit=2"))
    time_begins(lambda: hanging.counts()["concurrent"] == 2)
    result = suite.run("--crucible-adapter=v1")

    assert "had not ended after 0.5 s (timeout_s), and its server has answered nothing" in result.stdout.str()
    assert {row["ended"] for row in rows(suite, "agent_programs")} == {"timeout"}


@pytest.fixture
def hanging() -> Iterator[OpenAIServer]:
    with OpenAIServer.start() as server:
        server.behave(fault="hang")
        yield server


def test_a_program_that_does_not_exist_loses_its_samples_with_a_sentence(suite):
    suite.script(ECHO)
    suite.test(TEST.replace("sys.executable", "'no-such-agent'"))
    result = suite.run("--crucible-adapter=scripted")

    assert "there is no program 'no-such-agent' to run" in result.stdout.str()


def test_a_unit_that_ends_first_ends_its_programs(suite):
    suite.script(ECHO)
    # A shell starts soon, also on a slow machine.
    command = ["sh", "-c", "echo $$ > pid-$0.part; mv pid-$0.part pid-$0; exec sleep 60"]
    source = TEST.replace("metrics", "timeout=3, metrics").replace("limit=4", "limit=1")
    suite.test(source.replace('[sys.executable, "agent.py", sample.expected]', f"[*{command}, sample.expected]"))
    suite.run("--crucible-adapter=scripted")

    (program,) = rows(suite, "agent_programs")
    assert program["ended"] == "unit"
    (pid,) = suite.path.glob("pid-*")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_thread_that_is_left_behind_runs_no_program_any_more(suite):
    write_agent(suite, "ask('x'); import time; time.sleep(60)\n")
    source = TEST.replace("metrics", "timeout=3, metrics").replace("limit=4", "limit=1")
    suite.test(source.replace("async def", "def").replace("await ", ""))
    start = time.monotonic()
    suite.run("--crucible-adapter=scripted")

    assert time.monotonic() - start < 40
    assert [row["ended"] for row in rows(suite, "agent_programs")] == ["unit"]


ENVIRONMENT = """
    import os, pytest
    from pathlib import Path
    import agent

    @pytest.mark.crucible(dataset="questions.jsonl", limit=4, metrics=["exact_match"])
    def test_agent(sample, endpoint):
        with endpoint.environment():
            reply = agent.ask(sample.expected)
        assert "DSPY_CACHEDIR" not in os.environ
        return reply
"""


def test_code_that_reads_this_processs_environment_finds_the_endpoint(suite):
    write_agent(suite, "")
    suite.test(ENVIRONMENT)

    suite.run("--crucible-adapter=scripted", "--crucible-concurrency=1").assert_outcomes(passed=1)
    assert len(rows(suite, "endpoint_calls")) == 4


def test_the_environment_of_a_process_with_several_samples_is_refused(suite):
    write_agent(suite, "")
    suite.test(ENVIRONMENT)
    result = suite.run("--crucible-adapter=scripted")

    result.assert_outcomes(failed=1)
    assert (
        "endpoint.environment() sets variables of the whole process, in which 64 samples run at a time"
        in result.stdout.str()
    )


SANDBOXED = f"""
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", limit=2, metrics=["exact_match"])
    @pytest.mark.environment(files="agent.py")
    async def test_agent(sample, endpoint, workspace):
        result = await endpoint.run([{INTERPRETER!r}, "agent.py", sample.expected], cwd=workspace, sandbox=True, timeout_s=60)
        assert result.exit_status == 0, result.errors
        return result.output.strip()
"""


@pytest.mark.skipif(bool(missing_parts()), reason=missing_parts())
def test_a_program_in_the_sandbox_reaches_its_endpoint_and_nothing_else(suite):
    secret = suite.path / "secret.txt"
    secret.write_text("expected answers")
    write_agent(
        suite,
        f"""
import socket, subprocess, tempfile
problems = []

def refused(action, what):
    try:
        action()
    except OSError:
        return
    problems.append(what)

other = {suite_port()!r}
refused(lambda: socket.create_connection(("127.0.0.1", other), timeout=3), "another port")
refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), "UDP")
refused(lambda: socket.socket(socket.AF_UNIX), "a socket in the file system")
refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262), "MPTCP")
refused(lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", other)), "TCP fast open")
refused(lambda: socket.socket().bind(("127.0.0.1", 0)), "a server")
refused(lambda: open({str(secret)!r}).read(), "a file of the suite")
refused(lambda: open("/etc/shadow").read(), "/etc/shadow")
refused(lambda: open({str(suite.path / "new.txt")!r}, "w"), "writing outside")
if {landlock()} >= 6:
    refused(lambda: os.kill(os.getppid(), 0), "a signal to the launcher")
open("own.txt", "w").write("mine")
os.mkdir("sub"); os.rename("own.txt", "sub/own.txt")
with tempfile.TemporaryFile() as file: file.write(b"x")
assert subprocess.run([sys.executable, "-c", "import ssl, sqlite3; print('child')"], capture_output=True).stdout == b"child\\n"
socket.socketpair()
assert not problems, problems
print(ask(sys.argv[1]))
""",
    )
    suite.test(SANDBOXED)
    result = suite.run("--crucible-adapter=scripted")

    result.assert_outcomes(passed=1)
    assert [row["errors"] for row in rows(suite, "agent_programs")] == ["", ""]


def test_a_program_in_the_sandbox_needs_a_directory_of_its_own(suite):
    write_agent(suite, "print(ask(sys.argv[1]))\n")
    suite.test(SANDBOXED.replace("cwd=workspace, ", ""))
    result = suite.run("--crucible-adapter=scripted")

    assert "endpoint.run(..., sandbox=True) needs cwd=" in result.stdout.str()


def test_without_landlocks_network_rules_the_sandbox_is_refused(suite, monkeypatch):
    sentence = "Landlock version 3 of this kernel (6.2.0) does not restrict the network: needs Linux 6.7 or newer"
    monkeypatch.setattr("pytest_crucible.features.agents.programs.missing_parts", lambda: sentence)
    write_agent(suite, "print(ask(sys.argv[1]))\n")
    suite.test(SANDBOXED)
    result = suite.run("--crucible-adapter=scripted")

    result.assert_outcomes(failed=1)
    assert sentence in result.stdout.str()
    assert rows(suite, "agent_programs") == []


def suite_port() -> int:
    """Return a port on which this process listens for the whole session."""
    import socket

    listening = socket.create_server(("127.0.0.1", 0))
    _LISTENING.append(listening)
    return int(listening.getsockname()[1])


_LISTENING: list[Any] = []


def landlock() -> int:
    from pytest_crucible.sandbox.confinement import landlock_version

    return landlock_version()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds processes that left their group")
def test_a_killed_session_leaves_no_program_behind(suite):
    write_agent(
        suite,
        """
import subprocess, time
child = subprocess.Popen(["sleep", "120"], start_new_session=True)
open(f"pids-{os.getpid()}", "w").write(f"{os.getpid()} {child.pid}")
time.sleep(120)
""",
    )
    suite.test(TEST)
    session = suite.popen("--crucible-adapter=scripted")
    deadline = time.monotonic() + 240
    while len(files := list(suite.path.glob("pids-*"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.2)
    session.send_signal(signal.SIGKILL)
    session.wait()

    processes = [int(process) for file in files for process in file.read_text().split()]
    assert len(processes) == 8
    deadline = time.monotonic() + 20
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, processes))


def is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
