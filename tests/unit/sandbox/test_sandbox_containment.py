"""Attempts of programs to escape, and their ends. Where an escape would do damage, the program tries the harmless form of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_crucible.sandbox import Limits, Sandbox, allow, containment, withdraw

pytestmark = pytest.mark.skipif(not containment().complete, reason=containment().missing or "it is complete")
PERMISSION = "PermissionError: [Errno 1] Operation not permitted"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    allow()
    with Sandbox(workers=1) as opened:
        yield opened
    withdraw()


def test_program_that_ends_passes(sandbox):
    result = sandbox.run("assert sorted([2, 1]) == [1, 2]\nprint('done')")

    assert (result.status, result.detail, result.output) == ("passed", "", "done\n")


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("assert 1 == 2, 'no'", "AssertionError: no"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import sys; sys.exit(0)", "exited before its end (status 0)"),
        ("import os; os._exit(0)", "ended the process before its end"),
        ("import os; os.close(3); print('still here')", "ended the process before its end"),
        ('import os; os.write(3, b\'{"status": "passed", "detail": "", "token": ""}\\n\')\nwhile 1: pass', "ended"),
        ("input()", "EOFError"),
        ("x = '\0'", "SyntaxError"),
        ("x = '\udcff'", "UnicodeEncodeError"),
        ("class E(Exception):\n  def __str__(self): raise self\nraise E", "E"),
    ],
    ids=["assert", "interrupt", "exit", "_exit", "close", "forged", "input", "nul", "surrogate", "silent"],
)
def test_failing_programs_have_a_reason(sandbox, program, detail):
    result = sandbox.run(program)

    assert result.status in ("failed", "killed")
    assert result.detail.startswith(detail) or result.status == "killed"


@pytest.mark.parametrize(
    "program",
    [
        "import socket; socket.socket()",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "import socket; socket.socket(socket.AF_UNIX)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
    ],
    ids=["tcp", "udp", "unix", "http"],
)
def test_network_is_refused(sandbox, program):
    result = sandbox.run(program)

    assert result.status == "failed"
    assert "Operation not permitted" in result.detail


@pytest.mark.parametrize(
    "program",
    [
        "import os\nfor k in range(3): os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import os; raise PermissionError(1, 'Operation not permitted') if os.system('true') else AssertionError",
        "import os; os.execv('/bin/true', ['true'])",
        "import multiprocessing as m; p = m.get_context('fork').Process(target=print); p.start()",
        "import os; os.posix_spawn('/bin/true', ['true'], {})",
    ],
    ids=["fork", "subprocess", "system", "exec", "multiprocessing", "spawn"],
)
def test_processes_are_refused(sandbox, program):
    result = sandbox.run(program)

    assert result.status == "failed"
    assert "Error" in result.detail
    assert "Operation not permitted" in result.detail or "Permission denied" in result.detail


@pytest.mark.parametrize("target", ["os.getppid()", "-1", "0", "1"])
def test_signals_to_others_are_refused(sandbox, target):
    """Signal 0 asks only whether one might."""
    assert sandbox.run(f"import os; os.kill({target}, 0)").detail == PERMISSION


def test_program_can_signal_itself(sandbox):
    assert sandbox.run("import os; os.kill(os.getpid(), 9)").detail == "by SIGKILL"
    assert sandbox.run("import signal; signal.raise_signal(signal.SIGTERM)").detail == "by SIGTERM"


def test_resource_limits_cannot_be_raised(sandbox):
    others = sandbox.run("import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_NOFILE, (9, 9))")
    own = sandbox.run("import resource as r; r.setrlimit(r.RLIMIT_CPU, (999, 999))")

    assert others.status == "failed"
    assert own.status == "failed"


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("API_KEY", "hunter2")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("hunter2")
    return tmp_path / ".netrc"


READING = (
    "open({path!r}).read()",
    "import os; os.open({path!r}, os.O_WRONLY)",
    "import os; os.listdir({folder!r})",
    "import os; os.remove({path!r})",
    "import os; os.truncate({path!r}, 0)",
    "import os; os.chmod({path!r}, 0)",
    "import os; os.utime({path!r})",
    "import os; os.link({path!r}, 'mine')",
    "import os; os.symlink({path!r}, 'mine')",
    "import os; os.rename({path!r}, 'mine')",
    "open({folder!r} + '/new', 'w')",
    "import os; os.mkdir({folder!r} + '/new')",
    "open('/proc/self/environ').read()",
    "import os; open(f'/proc/{{os.getppid()}}/environ').read()",
    "import os; open(f'/proc/{{os.getppid()}}/mem').read(1)",
    "open('/etc/passwd').read()",
    "open('/dev/shm/crucible-escape', 'w')",
    "open('/tmp/crucible-escape', 'w')",
    "import multiprocessing.shared_memory as s; s.SharedMemory(create=True, size=1)",
)


@pytest.mark.parametrize("program", READING)
def test_other_files_cannot_be_read_or_changed(sandbox, secret, program):
    result = sandbox.run(program.format(path=str(secret), folder=str(secret.parent)))

    assert result.status == "failed"
    assert result.detail.startswith(("PermissionError", "OSError: [Errno 18]"))  # a link across to elsewhere
    assert secret.read_text() == "hunter2"
    assert [path.name for path in secret.parent.iterdir()] == [".netrc"]


def test_environment_home_and_open_files_are_hidden(secret):
    allow()
    with Sandbox(workers=1) as sandbox, open(secret):
        output = sandbox.run("import os; print(dict(os.environ), os.path.expanduser('~'), os.listdir('.'))").output
        opened = sandbox.run(
            "import os\nfor k in range(4, 64):\n try: os.fstat(k)\n except OSError: continue\n print(k)"
        )
    withdraw()

    assert "hunter2" not in output
    assert str(secret.parent) not in output
    assert opened.output == ""


def test_own_directory_is_removed_afterwards(sandbox):
    result = sandbox.run("import os; open('a', 'w').write('b'); assert open('a').read() == 'b'; print(os.getcwd())")
    again = sandbox.run("import os; assert os.listdir('.') == []")

    assert (result.status, again.status) == ("passed", "passed")
    assert not os.path.exists(result.output.strip())


def test_endless_loop_is_stopped(sandbox):
    assert sandbox.run("while True: pass", limits=Limits(cpu_s=1)).status == "timeout"
    assert sandbox.run("import time; time.sleep(60)", limits=Limits(wall_s=0.2)).detail == "not done after 0.2 s"


def test_ignored_signals_do_not_prevent_stopping(sandbox):
    deaf = "import signal\nfor k in (2, 15, 24): signal.signal(k, signal.SIG_IGN)\nwhile True: pass"

    assert sandbox.run(deaf, limits=Limits(wall_s=0.3)).status == "timeout"


def test_stopped_program_is_a_timeout(sandbox):
    stopped = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"

    assert sandbox.run(stopped, limits=Limits(wall_s=0.2)).status == "timeout"


def test_memory_is_limited(sandbox):
    assert sandbox.run("x = bytearray(1 << 31)").status == "memory"
    assert sandbox.run("import os; os.memfd_create('x')").status == "failed"


def test_threads_are_limited_by_memory(sandbox):
    many = "import threading, time\nfor k in range(5000): threading.Thread(target=time.sleep, args=(60,)).start()"

    assert sandbox.run(many).detail.startswith("RuntimeError")


UNLINKED = """
import mmap, os
kept = []
for k in range(40):
    file = open("a", "wb+", buffering=0)
    os.remove("a")
    file.write(bytes(1 << 18))
    kept.append(file)
"""
MAPPED = "    kept[-1] = mmap.mmap(file.fileno(), 4096)\n    file.close()\n"


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("open('a', 'wb').write(bytes(1 << 20))", "OSError"),
        ("for k in range(300): open(str(k), 'wb').write(bytes(1 << 18))", "it wrote more than 1048576 bytes"),
        ("for k in range(10**6): open(str(k), 'w')", "it made more than 1000 files"),
        ("kept = [open(str(k), 'w') for k in range(100)]", "OSError: [Errno 24]"),
        (UNLINKED, "it wrote more than 1048576 bytes"),
        (UNLINKED + MAPPED, "it wrote more than 1048576 bytes"),
    ],
    ids=["one", "many", "empty", "open", "unlinked", "unlinked and mapped"],
)
def test_files_are_limited(sandbox, program, detail):
    slow = program + "\nimport time; time.sleep(1)"

    assert sandbox.run(slow, limits=Limits(file_bytes=1 << 19, disk_bytes=1 << 20)).detail.startswith(detail)


def test_output_is_limited(sandbox):
    result = sandbox.run("for k in range(10**5): print('x' * 100)", limits=Limits(output_bytes=1000, cpu_s=10))

    assert (result.status, len(result.output)) == ("passed", 1000)


def test_interpreter_crash_ends_one_program(sandbox):
    assert sandbox.run("import ctypes; ctypes.string_at(0)").detail == "by SIGSEGV"
    assert sandbox.run("pass").passed


def test_result_is_deterministic(sandbox):
    outputs = {sandbox.run("import random; print(random.random(), hash('a'))").output for _ in range(3)}

    assert len(outputs) == 1


def test_concurrent_programs_keep_their_order():
    allow()
    with Sandbox(workers=2) as sandbox:
        results = sandbox.run_all([f"print({k})" for k in range(8)])
    withdraw()

    assert [result.output for result in results] == [f"{k}\n" for k in range(8)]


def test_programs_end_with_their_client(tmp_path):
    """A client that is killed leaves neither a supervisor nor a program nor its directory."""
    client = (
        "from pytest_crucible.sandbox import Sandbox\n"
        "Sandbox(workers=1).run('import os\\nprint(os.getpid())\\nwhile True: pass')"
    )
    environment = {**os.environ, "CRUCIBLE_RUN_CODE": "1", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", client], env=environment)
    _wait_for(lambda: len(_descendants(process.pid)) == 3)
    descendants = _descendants(process.pid)
    process.kill()
    process.wait()

    _wait_for(lambda: not any(map(_runs, descendants)) and not list(tmp_path.iterdir()))


def _descendants(process: int) -> list[int]:
    """The supervisor, the manager of the job, and the program."""
    children = _children(process)
    return children + [other for child in children for other in _descendants(child)]


def _children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
