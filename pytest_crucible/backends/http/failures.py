"""Explains why a connection could not be opened, and whether a retry may help."""

from __future__ import annotations

import errno
import socket
import ssl

from pytest_crucible.backends.http.tls import explain_tls_error
from pytest_crucible.records.errors import Refused, Retryable

# Time limit for opening a connection.
CONNECT_S = 15.0


def connection_error(error: OSError, origin: str, where: str, *, reached: bool) -> Refused | Retryable:
    """Return the error for a failed connection to `where`: the server at `origin`, or a proxy.

    A server that was never reached is a wrong setting; one that was reached before is down for a moment.
    """
    if isinstance(error, ssl.SSLCertVerificationError) or (isinstance(error, ssl.SSLError) and not reached):
        return Refused(explain_tls_error(error, origin))
    # Once it has resolved, a failing name is an outage of the resolver and worth a retry.
    if isinstance(error, socket.gaierror) and not reached:
        return Refused(f"the host name in {where} does not resolve ({error.strerror}): check the URL and the network")
    if isinstance(error, TimeoutError):
        return Retryable(f"{where} did not accept a connection within {CONNECT_S:g} s", kind="timeout")
    # Searched in the text: for a host with several addresses, the error lists what happened at each.
    if f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return Retryable(f"nothing listens at {where}: is the server running?", kind="connection")
    return Retryable(f"{where} cannot be reached: {error.strerror or error}", kind="connection")
