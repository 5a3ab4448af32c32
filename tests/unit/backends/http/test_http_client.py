"""The client against a real server: connections are kept, ended when a request is cancelled, and never left open."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator

import pytest
from openai_server import CERTIFICATE, OpenAIServer
from virtual_time import in_event_loop

from pytest_crucible.backends.http import client as module
from pytest_crucible.backends.http.client import Client, parse_address
from pytest_crucible.backends.http.connection import tls_context
from pytest_crucible.records.errors import Refused, Retryable, SpecError

OURS = 1
"""The connection on which the server is asked for its counts."""
PATH = "/completions"
MAX_BODY = 10**6


@pytest.fixture
def client(server: OpenAIServer) -> Client:
    return client_of(server)


@pytest.fixture(scope="module")
def secure() -> Iterator[OpenAIServer]:
    with OpenAIServer.start(tls=True) as server:
        yield server


@pytest.fixture
def silent_url() -> Iterator[str]:
    """The URL of a port that nothing listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


def client_of(server: OpenAIServer, **trust) -> Client:
    address = parse_address(server.url)
    return Client(address, {"x-one": "1"}, MAX_BODY, tls_context(**trust) if address.scheme == "https" else None)


def body(number: int = 0, model: str = "m") -> bytes:
    return json.dumps({"model": model, "prompt": f"{number}"}).encode()


async def texts(client: Client, numbers: range) -> list[int]:
    responses = await asyncio.gather(*(client.post(PATH, body(number)) for number in numbers))
    return [int(json.loads(response.body)["choices"][0]["text"]) for response in responses]


def until(condition) -> None:
    """The server hears of what a client does a moment later."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


@in_event_loop
async def test_connection_is_reused(server, client):
    for number in range(20):
        assert (await client.post(PATH, body(number))).status == 200
    counts = server.counts()
    assert counts["requests"] == 20
    assert counts["connections"] == 1 + OURS
    assert server.requests()[0]["headers"]["x-one"] == "1"


def test_client_works_on_several_loops(server, client):
    for _ in range(3):
        asyncio.run(texts(client, range(5)))
    until(lambda: server.counts()["open_connections"] == OURS)

    assert server.counts()["open_connections"] == OURS


@in_event_loop
async def test_closed_client_can_be_used_again(server, client):
    await texts(client, range(5))
    await client.close()
    await client.close()
    await asyncio.to_thread(until, lambda: server.counts()["open_connections"] == OURS)
    assert server.counts()["open_connections"] == OURS

    assert await texts(client, range(2)) == [0, 1]


@in_event_loop
async def test_cancelled_request_closes_its_connection(server, client):
    tasks = [asyncio.ensure_future(client.post(PATH, body(k, "m?fault=hang"))) for k in range(8)]
    await asyncio.to_thread(until, lambda: server.counts()["concurrent"] == 8)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await asyncio.to_thread(until, lambda: server.counts()["cancelled"] == 8)
    assert server.counts()["cancelled"] == 8
    assert server.counts()["concurrent"] == 0


@in_event_loop
async def test_broken_connection_is_not_reused(server, client):
    with pytest.raises(Retryable):
        await client.post(PATH, body(0, "m?fault=half"))

    assert (await client.post(PATH, body())).status == 200


@in_event_loop
async def test_idle_connection_is_not_reused(server, client, monkeypatch):
    await client.post(PATH, body())
    monkeypatch.setattr(module, "IDLE_S", -1.0)
    await client.post(PATH, body())
    assert server.counts()["connections"] == 2 + OURS


def test_restarted_server_is_reached():
    with OpenAIServer.start() as before:
        client, port = client_of(before), parse_address(before.url).port

        async def restart() -> int:
            await client.post(PATH, body())
            before.process.kill()
            await asyncio.to_thread(before.process.wait)
            with pytest.raises(Retryable) as caught:
                await client.post(PATH, body())
            assert caught.value.kind == "connection"
            with OpenAIServer.start(port=port):
                return (await client.post(PATH, body())).status

        assert asyncio.run(restart()) == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_refused_connection_is_retryable(silent_url, host):
    url = silent_url.replace("127.0.0.1", host)
    with pytest.raises(Retryable, match=rf"nothing listens at http://{host}:.* is the server running") as caught:
        asyncio.run(Client(parse_address(url), {}, MAX_BODY).post(PATH, b"{}"))

    assert caught.value.kind == "connection"


def test_unknown_host_is_refused():
    with pytest.raises(Refused, match=r"the host name in http://no.such.host.invalid does not resolve"):
        asyncio.run(Client(parse_address("http://no.such.host.invalid/v1"), {}, MAX_BODY).post(PATH, b"{}"))


def test_connection_timeout_is_retryable(server, client, monkeypatch):
    monkeypatch.setattr(module, "CONNECT_S", 0.0)
    with pytest.raises(Retryable, match="did not accept a connection within") as caught:
        asyncio.run(client.post(PATH, body()))

    assert caught.value.kind == "timeout"


def test_tls_trusts_the_given_authority(secure):
    for trust in ({"ca_file": CERTIFICATE}, {"verify": False}):
        assert asyncio.run(texts(client_of(secure, **trust), range(3))) == [0, 1, 2]


def test_untrusted_certificate_is_refused(secure):
    with pytest.raises(
        Refused, match=r"cannot be verified \(self-signed certificate\): give ca_file = .* or verify = false"
    ):
        asyncio.run(client_of(secure).post(PATH, body()))


def test_tls_to_a_plain_server_is_refused(server):
    address = parse_address(server.url.replace("http:", "https:"))
    with pytest.raises(Refused, match=r"does not speak TLS .* check whether its URL should begin with http"):
        asyncio.run(Client(address, {}, MAX_BODY, tls_context()).post(PATH, body()))


def test_invalid_ca_file_is_refused(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(SpecError, match=f"ca_file '.*{name}' cannot be read as PEM certificates"):
            tls_context(ca_file=tmp_path / name)
