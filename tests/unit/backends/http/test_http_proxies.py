"""Proxies of the environment: real ones, which see what is asked of them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import pytest
from forward_proxy import ForwardProxy, forward_proxy
from openai_server import CERTIFICATE, OpenAIServer

from pytest_crucible.backends.http.client import Client, Proxy, parse_address, proxy_for, read_proxy
from pytest_crucible.backends.http.connection import tls_context
from pytest_crucible.records.errors import Refused, Retryable, SpecError

MAX_BODY = 10**6
BODY = b'{"model": "m", "prompt": "2 + 2"}'


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    with forward_proxy() as proxy:
        yield proxy


def statuses(server: OpenAIServer, times: int = 2) -> list[int]:
    address = parse_address(server.url)
    client = Client(address, {}, MAX_BODY, tls_context(ca_file=CERTIFICATE) if address.scheme == "https" else None)

    async def statuses() -> list[int]:
        return [(await client.post("/completions", BODY)).status for _ in range(times)]

    return asyncio.run(statuses())


def test_plain_requests_use_the_proxy(server, proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy.url)

    assert statuses(server) == [200, 200]
    assert proxy.asked == [f"POST {server.url}/completions HTTP/1.1"]  # the second on the same connection


def test_tls_requests_use_a_tunnel(proxy, monkeypatch):
    monkeypatch.setenv("https_proxy", proxy.url)
    with OpenAIServer.start(tls=True) as server:
        assert statuses(server) == [200, 200]

    assert proxy.asked == [f"CONNECT 127.0.0.1:{parse_address(server.url).port} HTTP/1.1"]


@pytest.mark.parametrize(
    ("no_proxy", "is_used"),
    [
        *[(text, False) for text in ("localhost,127.0.0.1", "{netloc}", "example.com, {netloc}")],
        *[(text, False) for text in ("127.0.0.0/8", "example.com, 127.0.0.1/8", "::1/128,127.0.0.0/24")],
        *[(text, True) for text in ("", "10.0.0.0/8", "127.0.0.0/x", "/8", "::1/64")],
    ],
)
def test_no_proxy_exempts_hosts_ports_and_networks_from_all_proxy(server, proxy, monkeypatch, no_proxy, is_used):
    monkeypatch.setenv("ALL_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", no_proxy.format(netloc=parse_address(server.url).netloc))

    assert statuses(server) == [200, 200]
    assert len(proxy.asked) == is_used


def test_query_is_sent_through_the_proxy(server, proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    client = Client(parse_address(f"{server.url}?api-version=1"), {}, MAX_BODY)

    assert asyncio.run(client.post("/completions", BODY)).status == 200
    assert proxy.asked == [f"POST {server.url}/completions?api-version=1 HTTP/1.1"]


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_proxy_password_is_sent(monkeypatch, tls):
    secret = base64.b64encode(b"me:p@ss").decode()
    with forward_proxy(f"Basic {secret}") as proxy, OpenAIServer.start(tls=tls) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url.replace("//", "//me:p%40ss@"))

        assert statuses(server) == [200, 200]


def test_refused_tunnel_is_reported(monkeypatch):
    with forward_proxy("Basic else") as proxy, OpenAIServer.start(tls=True) as server:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(
            Refused, match=r"the proxy 127.0.0.1:\d+ refuses to connect to 127.0.0.1:\d+ \(status 407\)"
        ):
            statuses(server)


def test_unreachable_proxy_is_named(server, monkeypatch):
    with forward_proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
    with pytest.raises(Retryable, match=r"nothing listens at the proxy 127.0.0.1:\d+"):
        statuses(server)


def test_proxy_urls_are_read():
    secret = base64.b64encode(b"me:p@ss#1/2?").decode()

    assert read_proxy("proxy.example:3128") == Proxy("proxy.example", 3128)
    assert read_proxy("http://me:p@ss#1/2?@[::1]:3128/") == Proxy("::1", 3128, f"Basic {secret}")


@pytest.mark.parametrize(
    "url",
    [
        "socks5://me:hidden@proxy.example:1080",
        "https://proxy.example",
        "http://:3128",
        "http://a:b",
        "http://a:0",
        "http://me:hidden@[::1",
        "http://a b:3128",
        "http://a..b:3128",
        "http://a:3128?b=1",
        " ",
    ],
)
def test_unsupported_proxies_are_refused(monkeypatch, url):
    monkeypatch.setenv("HTTP_PROXY", url)
    with pytest.raises(SpecError, match=r"the environment names a proxy at .*; expected http://HOST:PORT") as caught:
        proxy_for(parse_address("http://model.example/v1"))

    assert "hidden" not in str(caught.value)
