"""The program that `fork_server` writes as `python`: it has the server fork a process, and stands for it."""

import marshal
import os
import signal
import socket
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A signal to the forked process is one to this program, which is in the session and process group of who started it."""


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["-u"]:  # a forked process writes each line at once
        del arguments[0]
    if not arguments or arguments[0][:2] not in ("-m", "-c"):
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(os.path.join(os.path.dirname(__file__), "fork_server.socket"))
    for number in SIGNALS:
        signal.signal(number, lambda number, _: server.send(bytes([number])))
    request = {
        "kind": arguments[0][:2],
        "arguments": list(filter(None, [arguments[0][2:]])) + arguments[1:],
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "files": (files := inherited_files()),
        "leads_session": os.getsid(0) == os.getpid(),
    }
    socket.send_fds(server, [marshal.dumps(request)], files)
    end(int(server.recv(16) or b"1"))


def inherited_files() -> list[int]:
    numbers = sorted(map(int, os.listdir("/proc/self/fd")))
    return [number for number in numbers if os.path.exists(f"/proc/self/fd/{number}") and os.get_inheritable(number)]


def end(status: int) -> None:
    """Exit with this status, or by this signal where it is negative."""
    if status < 0:
        if -status in SIGNALS:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main(sys.argv[1:])
