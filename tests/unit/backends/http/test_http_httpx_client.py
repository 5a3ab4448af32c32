"""The client on httpx against real servers: HTTP/2, SOCKS, redirects, clients of the user's own, and its failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import httpx
import pytest
from openai_server import CERTIFICATE, OpenAIServer

from pytest_crucible.backends.http import open_client
from pytest_crucible.backends.http.client import parse_address
from pytest_crucible.backends.http.httpx_client import _keeps_secrets
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def httpx_client(url: str, *, verify: bool = True, ca_file: Path | None = None, client: str = ""):
    headers = {"content-type": "application/json", "x-team": "blue"}
    return open_client(
        parse_address(url), headers, transport="httpx", max_body=10**6, verify=verify, ca_file=ca_file, client=client
    )


def post(url: str, **settings):
    return asyncio.run(httpx_client(url, **settings).post("/completions", b"{}"))


@contextlib.asynccontextmanager
async def serve(handle: Handle, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server that handles its connections so."""
    handlers: set[asyncio.Task[None] | None] = set()

    async def and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await handle(reader, writer)
        writer.close()

    server = await asyncio.start_server(and_close, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        await asyncio.gather(*filter(None, handlers))


def exchange(*responses: bytes, **settings):
    """Return the last response and the requests of a client whose server sends these responses, one a request."""
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2))
        writer.write(responses[len(requests) - 1])
        await writer.drain()

    async def run():
        async with serve(handle) as url:
            client = httpx_client(url, **settings)
            try:
                return await client.post("/completions", b"{}"), requests
            finally:
                await client.close()

    return asyncio.run(run())


def watch_stream(server: OpenAIServer, body: bytes):
    """The pieces that were watch_stream, and the response."""
    pieces: list[bytes] = []

    class Watch:
        held = 0

        def feed(self, piece: bytes) -> bool:
            pieces.append(piece)
            return True

    return pieces, asyncio.run(httpx_client(server.url).post("/completions", body, Watch()))


def test_stream_is_watched_and_not_held(server: OpenAIServer):
    pieces, response = watch_stream(server, b'{"model": "m", "prompt": "1", "stream": true}')

    assert b"data: [DONE]" in b"".join(pieces)
    assert response.body == b""
    assert 0 < response.seconds < 60


def test_ordinary_body_is_held_and_not_watched(server: OpenAIServer):
    pieces, response = watch_stream(server, b'{"model": "m", "prompt": "1"}')

    assert pieces == []
    assert json.loads(response.body)["choices"]


def test_headers_are_sent_and_bodies_decompressed():
    import gzip

    body = gzip.compress(b'{"a": 1}')
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)

    response, requests = exchange(head + body)

    assert response.body == b'{"a": 1}'
    assert "content-encoding" not in response.headers
    assert b"x-team: blue" in requests[0]


def redirect(location: str) -> bytes:
    return f"HTTP/1.1 307 Go\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


def test_at_most_five_redirects_are_followed():
    response, requests = exchange(*[redirect(f"/{k}") for k in range(5)], OK)

    assert (response.status, len(requests)) == (200, 6)
    assert requests[1].startswith(b"POST /0 ")
    with pytest.raises(Refused, match="redirects more than 5 times: check base_url"):
        exchange(*[redirect(f"/{k}") for k in range(6)], OK)


def test_redirect_error_omits_the_query():
    with pytest.raises(Refused) as caught:
        exchange(redirect("http://elsewhere.example/v1?api_key=planted"))

    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "method", "is_followed"),
    [
        ("http://host/v1", "http://host/v2", "POST", True),
        ("http://host/v1", "https://host/v1", "POST", True),
        ("https://host/v1", "https://host:8443/v1", "POST", True),
        ("https://host/v1", "http://host/v1", "POST", False),
        ("https://host/v1", "https://host.example/v1", "POST", False),
        ("https://host/v1", "https://host/v1", "GET", False),
    ],
)
def test_redirects_that_would_leak_headers_are_refused(before, after, method, is_followed):
    assert _keeps_secrets(httpx.Request("POST", before), httpx.Request(method, after)) == is_followed


@pytest.mark.parametrize(
    ("status", "location"), [(307, "http://localhost.example/v1"), (301, "/v2"), (303, "http://elsewhere.example/")]
)
def test_redirects_to_other_hosts_are_refused(status, location):
    with pytest.raises(Refused, match=rf"redirects \({status}\) to .*: write that as base_url"):
        exchange(f"HTTP/1.1 {status} Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode())


@pytest.mark.parametrize(
    ("response", "kind", "sentence"),
    [
        (b"", "connection", "closed the connection before it answered"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", "half", "broke off its response"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "connection", "closed the connection"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
            "garbage",
            "cannot be decompressed",
        ),
    ],
    ids=["nothing", "half", "another protocol", "not gzip"],
)
def test_bad_response_is_retryable(response, kind, sentence):
    with pytest.raises(Retryable, match=sentence) as caught:
        exchange(response)
    assert caught.value.kind == kind


def test_refused_connection_reads_as_with_the_default_client():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        sentences = []
        for transport in ("default", "httpx"):
            client = open_client(parse_address(url), {}, transport=transport, max_body=10**6)
            with pytest.raises(Retryable, match="nothing listens at") as caught:
                asyncio.run(client.post("/completions", b"{}"))
            sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]


def test_certificates_are_verified_by_the_adapters_settings():
    with OpenAIServer.start(tls=True) as secure:
        assert post(secure.url, ca_file=CERTIFICATE).status
        assert post(secure.url, verify=False).status
        with pytest.raises(Refused, match=r"cannot be verified .*: give ca_file"):
            post(secure.url)


def test_http_2_is_used_when_offered():
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(CERTIFICATE)
    tls.set_alpn_protocols(["h2", "http/1.1"])
    versions: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        versions.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        while True:
            writer.write(connection.data_to_send())
            for event in connection.receive_data(await reader.read(65536)):
                if isinstance(event, h2.events.StreamEnded):
                    connection.send_headers(event.stream_id, [(":status", "200")])
                    connection.send_data(event.stream_id, b'{"answered": 2}', end_stream=True)
            writer.write(connection.data_to_send())
            if reader.at_eof():
                return

    async def run():
        async with serve(handle, tls) as url:
            client = httpx_client(url, ca_file=CERTIFICATE)
            responses = await asyncio.gather(*(client.post("/completions", b"{}") for _ in range(5)))
            await client.close()
            return responses

    assert {response.body for response in asyncio.run(run())} == {b'{"answered": 2}'}
    assert set(versions) == {"h2"}


def test_socks_proxy_is_used(server: OpenAIServer, monkeypatch):
    requests: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """SOCKS5 without authentication, to an IPv4 address (RFC 1928)."""
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        _, _, _, kind = await reader.readexactly(4)
        assert kind == 1
        host, port = socket.inet_ntoa(await reader.readexactly(4)), int.from_bytes(await reader.readexactly(2))
        requests.append(port)
        there, away = await asyncio.open_connection(host, port)
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await asyncio.gather(pipe(reader, away), pipe(there, writer))

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def run():
        async with serve(handle) as proxy:
            monkeypatch.setenv("ALL_PROXY", proxy.replace("http://", "socks5://").removesuffix("/v1"))
            client = httpx_client(server.url)
            try:
                return await client.post("/completions", b'{"model": "m", "prompt": "1"}')
            finally:
                await client.close()

    assert asyncio.run(run()).status == 200
    assert requests == [parse_address(server.url).port]


@pytest.fixture
def clients(tmp_path, monkeypatch):
    """A module of the user's with functions that return clients."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_clients.py").write_text(
        "import httpx\n"
        "def signed():\n"
        "    def sign(request):\n"
        "        request.headers['authorization'] = 'Signed ' + request.method\n"
        "        return request\n"
        "    return httpx.AsyncClient(auth=sign)\n"
        "def failing():\n"
        "    def sign(request):\n"
        "        assert False, 'no token'\n"
        "    return httpx.AsyncClient(auth=sign)\n"
        "def unbuilt():\n"
        "    raise KeyError('TOKEN')\n"
        "def wrong():\n"
        "    return 'no client'\n"
        "NUMBER = 1\n"
    )
    yield
    sys.modules.pop("my_clients", None)


def test_user_client_authenticates_requests(clients):
    response, requests = exchange(OK, client="my_clients:signed")

    assert response.status == 200
    assert b"authorization: Signed POST" in requests[0]


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("my_clients:missing", "cannot be imported"),
        ("no_such_module:f", "cannot be imported"),
        ("my_clients", "write 'module:function'"),
        ("my_clients:NUMBER", "which is a number: name a function"),
    ],
)
def test_missing_client_function_is_refused(clients, reference, sentence):
    with pytest.raises(SpecError, match=sentence):
        httpx_client("http://127.0.0.1:1/v1", client=reference)


def test_client_function_must_return_a_client(clients):
    with pytest.raises(BackendError, match=r"returned a string: expected an httpx\.AsyncClient"):
        post("http://127.0.0.1:1/v1", client="my_clients:wrong")


@pytest.mark.parametrize(("name", "error"), [("failing", "AssertionError: no token"), ("unbuilt", "KeyError: 'TOKEN'")])
def test_failing_authentication_stops_the_experiment(clients, name, error):
    with pytest.raises(Refused, match=f"the client of http://127.0.0.1:1 raised {error}"):
        post("http://127.0.0.1:1/v1", client=f"my_clients:{name}")


def test_httpx_is_imported_only_when_used():
    import subprocess

    program = "import sys; import pytest_crucible.backends.openai.backend; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
