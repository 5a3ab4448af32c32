"""The supervisor: a small process that forks a manager for each job. It ends with its client.

It never reads a job itself, so that no later program can find the tests of an earlier one in its memory.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
from typing import NoReturn

from pytest_crucible.sandbox.confinement import containment, readable
from pytest_crucible.sandbox.job import serve_job
from pytest_crucible.sandbox.kernel import PR_GET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, machine, prctl

# The modules that programs import most: loaded once, before forking.
PRELOADED = (
    *("bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions", "functools", "hashlib"),
    *("heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
)


def main() -> None:
    """Serve jobs until the client closes the connection."""
    client_in, client_out = os.dup(0), os.dup(1)
    for name in PRELOADED:
        importlib.import_module(name)
    missing, libraries = containment().missing, readable()
    if machine() is not None:
        # The first call through ctypes takes 2 ms, which every child would spend again.
        prctl(PR_GET_NO_NEW_PRIVS)
    # A forked child would otherwise copy every page that its collector touches.
    gc.freeze()
    status = 0
    while status == 0:
        # Forked before its job arrives, which hides what forking costs.
        manager = os.fork()
        if manager == 0:
            _serve(client_in, client_out, missing, libraries)
        _, status = os.waitpid(manager, 0)


def _serve(client_in: int, client_out: int, missing: str, libraries: tuple[str, ...]) -> NoReturn:
    try:
        if machine() is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        serve_job(client_in, client_out, missing, libraries)
        os._exit(0)
    except BaseException:
        # The client is gone, or its messages cannot be parsed.
        os._exit(1)
