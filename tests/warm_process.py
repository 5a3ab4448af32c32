"""Processes that have imported everything already: each is forked from a server that did.

warm = WarmProcesses(folder)
done = warm.run(["-m", "pytest", "-q"], cwd=path, env=os.environ)
assert done.returncode == 0, done.stdout + done.stderr
warm.close()

All that name the same folder share the server, such as the workers of one session.

A new interpreter takes 1.5 s of CPU to import what a session needs, 3 s with Tinker's SDK; a session in a fork takes 0.3 s. It
is a process like any other, with a number, a terminal, signals and threads of its own. What a test asserts about imports,
about how pytest starts, or about what an interpreter prints while it frees its modules needs a new interpreter instead.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from installed_distributions import read_distributions_once
from shared_statements import share_compiled_statements

FORKS = sys.platform == "linux"
"""Elsewhere libraries of the system do not survive a fork: there each process is a new interpreter."""
SOCKET = "warm.socket"
LIBRARIES = (
    "tinker.resources",
    "pyqwest.httpx",
    "transformers.models.auto.tokenization_auto",
    "sqlalchemy.dialects.sqlite",
    "opentelemetry.sdk.trace",
    "httpcore",
    "httptools",
    "jinja2",
    "xdist.remote",
)
"""What sessions import when they need it, where it is installed."""
HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGCHLD: signal.SIG_DFL,
}
"""What a new interpreter does with signals."""
ADAPTERS = ("--crucible-adapter=v2", "--compare=v1")
SUITE = """
import pytest

def v1(request):
    return "2"

def v2(request):
    return "2"

@pytest.mark.crucible(dataset=[{"input": "1 + 1", "expected": "2"}], metrics=["exact_match"])
@pytest.mark.quality_target("exact_match >= 0.5", decide="point")
@pytest.mark.ab_compare("exact_match")
async def test_sum(sample, sampler):
    return await sampler.generate(sample.input)
"""


class WarmProcesses:
    """Starts processes. Their server is started with the first of them, and ends when all that use it are closed."""

    def __init__(self, folder: Path, server: socket.socket | None = None) -> None:
        self.folder = folder
        self._server = server

    def popen(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        start_new_session: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> WarmProcess | subprocess.Popen[bytes]:
        """Start Python with these arguments, `-m MODULE ...` or `-c CODE`. The streams are file descriptors."""
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        if not FORKS:
            command = [sys.executable, *arguments]
            options = {"start_new_session": start_new_session, "pass_fds": pass_fds}
            return subprocess.Popen(command, cwd=cwd, env=env, **options, **streams)
        request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "leads": start_new_session}
        request["numbers"] = [0, 1, 2, *pass_fds]
        status, theirs = os.pipe()
        socket.send_fds(self.start(), [json.dumps(request).encode()], [*streams.values(), *pass_fds, theirs])
        os.close(theirs)
        return WarmProcess(status)

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with these arguments, and no input, to its end."""
        with open(os.devnull) as nothing, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            streams = {"stdin": nothing.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
            status = self.popen(arguments, cwd=cwd, env=env, **streams).wait(timeout)
            return subprocess.CompletedProcess(list(arguments), status, _read_all(out), _read_all(err))

    def start(self) -> socket.socket:
        """Connect to the server, which is started unless it is there."""
        if self._server is None:
            with open(self.folder / "warm.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                while (server := self._connect()) is None:
                    _start_server(self.folder)
                self._server = server
        return self._server

    def _connect(self) -> socket.socket | None:
        """Return None where no server is, or one that was about to end."""
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.suppress(FileNotFoundError, ConnectionError):
            server.connect(str(self.folder / SOCKET))
            if server.recv(1):  # it is ready
                return server
        server.close()
        return None

    def close(self) -> None:
        """Let the server end, once its processes have ended and nobody else uses it."""
        if self._server is not None:
            self._server.close()
            self._server = None


class WarmProcess:
    """What tests use of subprocess.Popen."""

    def __init__(self, status: int) -> None:
        self.returncode: int | None = None
        # Not a file: one that is never waited for would warn, as an error of the test in which it is garbage collected.
        self._status = status
        self._close = weakref.finalize(self, os.close, status)
        self.pid = int(_read_line(status))

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self.returncode = int(_read_line(self._status))
            self._close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _read_line(number: int) -> bytes:
    """Read one line and no more: the next one is written when the process has ended."""
    line = b""
    while not line.endswith(b"\n"):
        if not (character := os.read(number, 1)):
            raise EOFError("the server of warm processes has ended")
        line += character
    return line


def _read_all(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _start_server(folder: Path) -> None:
    # One thread, because no other one survives a fork; a session of its own, because Ctrl-C is for those who wait for it.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    (folder / SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / SOCKET))
        listener.listen()
        listener.set_inheritable(True)
        # Not a Popen, which must be waited for: it may outlive this process, where another one uses it.
        os.posix_spawn(sys.executable, [sys.executable, __file__, str(listener.fileno())], environment, setsid=True)


# -- in the server --------------------------------------------------------------------------------------------------


def serve(number: int) -> None:
    """Fork a process for each request, until the last client has closed its socket. In the process, be what it requests."""
    import_all()
    gc.collect()
    gc.freeze()  # a garbage collection in a process would write to every page, and so copy it
    gc.get_freeze_count = functools.cache(
        gc.get_freeze_count
    )  # counting them takes a session in a fork 20 ms, three times
    gc.get_freeze_count()
    signal.signal(signal.SIGCHLD, _reap)
    listener = socket.socket(fileno=number)
    folder = Path(listener.getsockname()).parent
    clients = [_accept(listener)]
    while clients:
        for ready in select.select([listener, *clients], [], [])[0]:
            if ready is listener:
                clients.append(_accept(listener))
            elif not fork_for(ready, (listener, *clients), folder):
                ready.close()
                clients.remove(ready)
    listener.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _accept(listener: socket.socket) -> socket.socket:
    client, _ = listener.accept()
    client.send(b"1")
    return client


def fork_for(client: socket.socket, sockets: Sequence[socket.socket], folder: Path) -> bool:
    """Fork a process for the client's next request; False if it has closed its socket."""
    message, streams, *_ = socket.recv_fds(client, 1 << 20, 8)
    if message and os.fork() == 0:
        for one in sockets:
            one.close()
        supervise(json.loads(message), streams, folder)
    for stream in streams:
        os.close(stream)
    return bool(message)


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def import_all() -> None:
    """Let pytest import its plugins, so that their asserts are rewritten, and then import what sessions need."""
    import pytest

    read_distributions_once()
    shown = io.StringIO()
    with contextlib.ExitStack() as stack:
        nothing = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["HOME"] = nothing  # some libraries remember where their files are
        for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
            stack.enter_context(redirect(shown))
        status = pytest.main([nothing, f"--rootdir={nothing}", "-pno:cacheprovider"])
        assert status == pytest.ExitCode.NO_TESTS_COLLECTED, shown.getvalue()
        # What is imported here can be imported in each process.
        import warm_programs  # noqa: F401
        import warm_workers  # noqa: F401

        import pytest_crucible

        ours = [module.name for module in pkgutil.walk_packages(pytest_crucible.__path__, "pytest_crucible.")]
        for name in (*LIBRARIES, *ours):
            if not name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    import_module(name)
        share_compiled_statements()
        paths = list(sys.path)
        status = pytest.main(prepare_session(Path(nothing)))
        assert status == pytest.ExitCode.OK, shown.getvalue()
        sys.path[:] = paths
        del sys.modules["test_sum"]


def prepare_session(folder: Path) -> list[str]:
    """Write a suite and return the arguments to run it: what a session compiles and caches, each process then has."""
    (folder / "test_sum.py").write_text(SUITE, encoding="utf-8")
    adapters = [f'[adapters.{name}]\nbackend = "scripted"\nscript = "test_sum:{name}"\n' for name in ("v1", "v2")]
    (folder / "crucible.toml").write_text("".join(adapters), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return [str(folder), f"--rootdir={folder}", "-pno:cacheprovider", "-pno:asyncio", *ADAPTERS]


def supervise(request: dict[str, Any], streams: Sequence[int], folder: Path) -> None:
    """Fork the process; write its number and then its exit status, negative if a signal ended it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, status = streams
    if process := os.fork():
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(BrokenPipeError):
            os.write(status, f"{process}\n".encode())
            os.write(status, f"{os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}\n".encode())
        os._exit(0)
    os.close(status)
    if request["leads"]:
        os.setsid()
    become(request, streams)
    prepare_children(request["arguments"], folder)
    exit_status = run(request["arguments"])
    # What an interpreter does at its end, but for freeing its modules: that would copy all of them.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(exit_status)


def prepare_children(arguments: Sequence[str], folder: Path) -> None:
    """Let services and workers that this process starts be forked, too."""
    import warm_programs
    import warm_workers

    warm_programs.use_warm_services(folder)
    if any(argument.startswith("-n") for argument in arguments[2:]):
        warm_workers.fork_workers_of_this_process(folder)


def become(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Have the streams, directory, environment, signals and paths of a new interpreter."""
    for signal_number, handler in HANDLERS.items():
        signal.signal(signal_number, handler)
    # First out of the way: a stream may have the number that another one is to have.
    first_free = max(request["numbers"]) + 1
    high = [fcntl.fcntl(stream, fcntl.F_DUPFD, first_free) for stream in streams]
    for stream in streams:
        os.close(stream)
    for number, copy in zip(request["numbers"], high, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = [_reopened(k) for k in range(3)]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # the server's, from its own environment
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX")
    sys.path[0:1] = [request["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _reopened(number: int) -> Any:
    errors = "backslashreplace" if number == 2 else "strict"
    return open(number, "r" if number == 0 else "w", buffering=1, encoding="utf-8", errors=errors, closefd=False)


def run(arguments: Sequence[str]) -> int:
    """Run the code or the module; its exit status."""
    kind, what, *others = arguments
    try:
        if kind == "-c":
            exec(what, {"__name__": "__main__"})
        else:
            sys.argv = ["", *others]
            runpy.run_module(what, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    serve(int(sys.argv[1]))
