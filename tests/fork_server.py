"""A server that forks Python processes which have imported everything already, and the program that asks it for one.

    with ForkServer(folder) as server:
        subprocess.run([server.python, "-m", "pytest", "-q"])

A new interpreter takes 1.5 s of CPU to import what a session needs, 3 s with Tinker's SDK; a session in a fork takes 0.3 s.
`server.python` is a program that tests, the package and pytest-xdist start like any interpreter: with `-m MODULE` or `-c CODE`
it has the server fork a process with its arguments, directory, environment and open files, passes signals on to it, and ends
as it ends. With other arguments it is the interpreter. What a test asserts about imports, about how pytest starts, or about what an
interpreter prints while it frees its modules needs a new interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import io
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

INTERPRETER = sys.executable
FORKS = sys.platform == "linux"
"""Elsewhere libraries of the system do not survive a fork: there each process is a new interpreter."""
ADDRESS = "fork_server.socket"
MOST_FILES = 64

LIBRARIES = (
    "scipy.stats",
    "httpx",
    "httpcore",  # httpx imports it with the first request, and keeps its classes
    "jsonschema",
    "jinja2",
    "nbformat",
    "httptools",
    "pandas",
    "psycopg",
    # pytest's hook for exceptions in finalizers imports it. A finalizer may run while importlib walks through its caches, which
    # an import changes: RuntimeError.
    "tracemalloc",
)
"""Libraries that sessions import when they need them, where they are installed. A second copy would have other classes."""
LARGE_LIBRARIES = (
    "tinker.resources",
    "pyqwest.httpx",
    "transformers.models.auto.tokenization_auto",
    "opentelemetry.sdk.trace",
    "xdist.remote",
)
HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
"""The signal handlers of a new interpreter."""
SUITE = """
import pytest

def v1(request):
    return "2"

@pytest.mark.crucible(dataset=[{"input": "1 + 1", "expected": "2"}], metrics=["exact_match"])
@pytest.mark.quality_target("exact_match >= 0.5", decide="point")
@pytest.mark.ab_compare("exact_match")
async def test_sum(sample, sampler):
    return await sampler.generate(sample.input)
"""


def import_everything(libraries: Sequence[str] = LIBRARIES) -> None:
    """Import all modules of the package, and the libraries that are installed."""
    import pytest_crucible

    ours = [module.name for module in pkgutil.walk_packages(pytest_crucible.__path__, "pytest_crucible.")]
    for name in (*libraries, *ours):
        if not name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                import_module(name)


class ForkServer:
    """A connection to the folder's server. All processes that name the same folder share it, such as the workers of a session."""

    def __init__(self, folder: Path) -> None:
        self.python = str(folder / "python") if FORKS else sys.executable
        self._connection = _connect_or_start(folder) if FORKS else None

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the server end, once the last process that uses it has ended."""
        if self._connection is not None:
            self._connection.close()


def _connect_or_start(folder: Path) -> socket.socket:
    """Return a connection that keeps the server alive. The server need not be ready yet."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with _lock(folder):
        if not (folder / ADDRESS).exists():
            _start(folder)
        connection.connect(str(folder / ADDRESS))
    return connection


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let no client connect while the server ends."""
    with open(folder / "fork_server.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(folder: Path) -> None:
    program = folder / "python"
    program.write_text(f"#!{sys.executable} -IS\n{(Path(__file__).parent / 'forked_python.py').read_text()}")
    program.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / ADDRESS))
        listener.listen()
        listener.set_inheritable(True)
        # One thread, because no other one survives a fork; a session of its own, because Ctrl-C is for those who wait for it.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        # Not a Popen, which must be waited for: it may outlive this process, where another one uses it.
        os.posix_spawn(sys.executable, [sys.executable, __file__, str(listener.fileno())], environment, setsid=True)


# -- in the server --------------------------------------------------------------------------------------------------


def serve(listener: socket.socket) -> None:
    """Fork a process for each request, until the last client has closed its connection."""
    folder = Path(listener.getsockname()).parent
    processes: dict[socket.socket, int] = {}  # the process of each connection, as a file descriptor
    while processes or not _ends(listener, folder):
        connections = {process: connection for connection, process in processes.items() if process >= 0}
        for ready in select.select([listener, *processes, *connections], [], [])[0]:
            if ready is listener:
                processes[listener.accept()[0]] = -1
            elif ready in processes:
                _serve_client(ready, processes, listener, str(folder / "python"))
            elif processes.get(connections[ready]) == ready:
                _send_status(connections[ready], processes)


def _ends(listener: socket.socket, folder: Path) -> bool:
    """Return whether no client is about to connect; from now on, the next one starts a server."""
    # pytest removes the folder at the end of its session, perhaps in this moment.
    with contextlib.suppress(FileNotFoundError), _lock(folder):
        if select.select([listener], [], [], 0)[0]:
            return False
        (folder / ADDRESS).unlink()
    return True


def _serve_client(
    client: socket.socket, processes: dict[socket.socket, int], listener: socket.socket, python: str
) -> None:
    """Fork a process, send a signal to it, or kill it because its client is gone."""
    try:
        message, files, *_ = socket.recv_fds(client, 1 << 20, MOST_FILES)
    except ConnectionError:
        message, files = b"", []
    if files:
        try:
            processes[client] = _fork(marshal.loads(message), files, [listener, *processes], python)
        except OSError:  # no process is left: the client ends with 1
            del processes[client]
            client.close()
    elif message:
        _send_signal(processes[client], message[0])
    else:
        if processes[client] >= 0:
            _send_signal(processes[client], signal.SIGKILL)
            _wait(processes[client])
        del processes[client]
        client.close()


def _send_signal(process: int, number: int) -> None:
    """Send a signal to a process, which may have ended since its client asked for it."""
    if process >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)


def _fork(request: Mapping[str, Any], files: Sequence[int], sockets: Sequence[socket.socket], python: str) -> int:
    """Fork a process that runs what is requested; return its file descriptor."""
    if process := os.fork():
        for number in files:
            os.close(number)
        return os.pidfd_open(process)
    status = 1
    try:
        for connection in sockets:
            connection.close()
        _become(request, files)
        sys.executable = python  # its workers and services are forked, too
        status = _run(request["kind"], request["arguments"])
        # What an interpreter does at its end, but for freeing its modules: that would copy all of them.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _send_status(client: socket.socket, processes: dict[socket.socket, int]) -> None:
    with contextlib.suppress(ConnectionError):
        client.send(str(_wait(processes[client])).encode())
    processes[client] = -1


def _wait(process: int) -> int:
    """Return the exit status of a process, negative if a signal ended it."""
    result = os.waitid(os.P_PIDFD, process, os.WEXITED)
    os.close(process)
    assert result is not None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Take over the files, directory, environment, signals and paths of a new interpreter."""
    if request["leads_session"]:
        os.setsid()
    for signal_number, handler in HANDLERS.items():
        signal.signal(signal_number, handler)
    # First out of the way: a file may have the number that another one is to have.
    first_free = max(request["files"]) + 1
    copies = [fcntl.fcntl(number, fcntl.F_DUPFD, first_free) for number in files]
    for number in files:
        os.close(number)
    for number, copy in zip(request["files"], copies, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = [
        _open_stream(k) for k in range(3)
    ]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # the server's, from its own environment
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX")
    sys.path[0:1] = [request["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _open_stream(number: int) -> TextIO:
    errors = "backslashreplace" if number == 2 else "strict"
    return open(number, "r" if number == 0 else "w", buffering=1, encoding="utf-8", errors=errors, closefd=False)


def _run(kind: str, arguments: Sequence[str]) -> int:
    """Run the module (`-m`) or the code (`-c`) and return its exit status."""
    program, *others = arguments
    try:
        if kind == "-c":
            sys.argv = ["-c", *others]
            exec(program, {"__name__": "__main__"})
        else:
            sys.argv = ["", *others]
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def preload() -> None:
    """Run a session and import what others need. pytest imports its plugins first, so that their asserts are rewritten."""
    import pytest

    output = io.StringIO()
    paths = list(sys.path)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["HOME"] = str(folder)  # some libraries remember where their files are
        for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
            stack.enter_context(redirect(output))
        (folder / "test_sum.py").write_text(SUITE, encoding="utf-8")
        (folder / "crucible.toml").write_text('[adapters.v1]\nbackend = "scripted"\nscript = "test_sum:v1"\n')
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        arguments = [f"--rootdir={folder}", "-pno:cacheprovider", "-pno:asyncio", "--crucible-adapter=v1"]
        status = pytest.main([str(folder), *arguments])
        assert status == pytest.ExitCode.OK, output.getvalue()
        import_everything((*LIBRARIES, *LARGE_LIBRARIES))
    sys.path[:] = paths
    del sys.modules["test_sum"]
    gc.collect()
    gc.freeze()  # a garbage collection in a process would write to every page, and so copy it


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        preload()
        serve(listener)
