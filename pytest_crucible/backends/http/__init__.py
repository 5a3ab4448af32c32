"""Lean HTTP/1.1 for evals, and httpx where asked for: many small POST requests to one server, on connections that are kept open."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Protocol

from pytest_crucible.backends.http.client import Address, Client
from pytest_crucible.backends.http.connection import Response, Watch, tls_context
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import import_function


class HttpClient(Protocol):
    """Sends requests with the same headers to one server. Failures are the errors of `pytest_crucible.records.errors`."""

    def post(self, path: str, body: bytes, watch: Watch | None = None) -> Awaitable[Response]: ...

    async def close(self) -> None: ...


TRANSPORTS = ("default", "httpx")


def open_client(
    address: Address,
    headers: Mapping[str, str],
    *,
    transport: str,
    max_body: int,
    verify: bool = True,
    ca_file: Path | None = None,
    client: str = "",
) -> HttpClient:
    """Return this package's own client, or one on httpx.

    `client` is the function ("module:function") that returns the `httpx.AsyncClient`; empty for one of ours.
    """
    if transport == "default":
        own_tls = tls_context(verify=verify, ca_file=ca_file) if address.scheme == "https" else None
        return Client(address, headers, max_body, own_tls)
    try:
        from pytest_crucible.backends.http.httpx_client import HttpxClient, build_client
    except ModuleNotFoundError as error:
        raise SpecError(
            'transport = "httpx" needs httpx, which is not installed: pip install "pytest-crucible[httpx]"'
        ) from error
    tls = tls_context(verify=verify, ca_file=ca_file)
    build = import_function("an adapter has client =", client) if client else lambda: build_client(tls)
    return HttpxClient(address, headers, max_body, build)
