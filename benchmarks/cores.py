"""Who runs where: a server that is measured beside its client would else take turns with it, on the same core.

Linux wakes a process where it was called from. A server in a process of its own then interrupts the client that has just sent a
request, although another core has nothing to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def pin(core: int, process: int = 0) -> None:
    """Keep a process, by default this one, and those that it starts from now on, on one of the cores that this one may use."""
    os.sched_setaffinity(process, {sorted(os.sched_getaffinity(0))[core]})


@contextmanager
def apart(server: int) -> Iterator[None]:
    """The server, by its process number, has the last core, and whatever is started meanwhile the first; where there are two."""
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        pin(-1, server)
        pin(0)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
