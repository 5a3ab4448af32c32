"""The names by which a dashboard may be addressed: a site that resolves its own name to this machine must not read it."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from pytest_crucible.quick_dataclass import dataclass

LOCAL = "localhost"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    address = _address(host)
    return host == LOCAL if address is None else address.is_loopback


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that a request may name, of a dashboard that listens on one."""

    listens_on: str = "127.0.0.1"

    def allows(self, host: str) -> bool:
        """Return whether a request may have this header `Host`.

        >>> Hosts().allows("127.0.0.1:8765"), Hosts().allows("evil.example:8765"), Hosts("0.0.0.0").allows("10.1.2.3:8765")
        (True, False, True)
        """
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if is_loopback(name):
            return True
        # An address cannot be made to resolve to another machine.
        return not is_loopback(self.listens_on) and (_address(name) is not None or name in self._names())

    def _names(self) -> set[str]:
        return {self.listens_on.lower(), socket.gethostname().lower()}


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
