"""Ports on which a server can be started again: connections, and servers without a port of their own, get none of these."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_FIRST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def find_quiet_port() -> int:
    """Return a free port of this machine below those that the system gives away."""
    end = int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 32_768
    # The global generator may have been seeded alike in several processes.
    draws = random.SystemRandom()
    while True:
        port = draws.randrange(_FIRST, max(end, _FIRST + 1_000))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
