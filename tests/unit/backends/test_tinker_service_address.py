"""Where a service is, its key, and what stands between."""

from __future__ import annotations

import pytest

from pytest_crucible.backends.tinker.service import (
    ServiceAddress,
    exempt_loopback,
    is_loopback,
    proxy_variable,
    read_address,
)
from pytest_crucible.records.errors import SpecError

KEY = "tml-0123456789abcdef"


def test_address_is_read_from_the_adapter():
    options = {"base_url": "https://tinker.example/", "api_key_env": "THEIRS", "project": "p1", "base_model": "m"}
    place = read_address("v2", options, {"THEIRS": KEY}, None)

    assert place == ServiceAddress("https://tinker.example", KEY, "p1")
    assert KEY not in repr(place)


def test_missing_parts_are_the_sessions():
    place = read_address("v2", {"project": "p1"}, {"TINKER_API_KEY": KEY}, "https://own")

    assert place == ServiceAddress("https://own", KEY, "p1")


@pytest.mark.parametrize(
    ("options", "environment", "sentence"),
    [
        ({"project": "p"}, {"TINKER_API_KEY": KEY}, "name the service with base_url"),
        ({"base_url": "ftp://a"}, {"TINKER_API_KEY": KEY}, "has base_url 'ftp://a': write http://... or https://..."),
        ({"base_url": ""}, {}, "has base_url = '': write base_url = "),
        ({"base_url": "http://a", "project": 3}, {}, "has project = 3: write project = "),
        ({"base_url": "http://a"}, {}, "needs a key for its Tinker service: set TINKER_API_KEY"),
        (
            {"base_url": "http://a", "api_key_env": "X"},
            {"X": "sk-1"},
            "X is not a Tinker key: it must start with 'tml-'",
        ),
    ],
)
def test_invalid_addresses_are_refused(options, environment, sentence):
    with pytest.raises(SpecError) as caught:
        read_address("v2", options, environment, None)

    assert sentence in str(caught.value)
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.0.1", True),
        ("http://[::1]:1", True),
        ("http://localhost", True),
        ("http://192.168.0.1", False),
        ("https://localhost.example", False),
        ("nothing", False),
    ],
)
def test_loopback_addresses_are_recognised(url, here):
    assert is_loopback(url) is here


def test_loopback_is_exempt_from_proxies():
    environment = {"NO_PROXY": "intranet"}
    exempt_loopback("https://tinker.example", environment)
    assert environment == {"NO_PROXY": "intranet"}

    for _ in range(2):
        exempt_loopback("http://127.0.0.1:9", environment)
    assert environment == {"NO_PROXY": "intranet,127.0.0.1", "no_proxy": "127.0.0.1"}


def test_proxy_variable_is_named(monkeypatch):
    for name in (
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    assert proxy_variable("http://tinker.example") is None

    monkeypatch.setenv("ALL_PROXY", "http://proxy")
    assert proxy_variable("http://tinker.example") == "ALL_PROXY"
    monkeypatch.setenv("HTTP_PROXY", "http://proxy")
    assert proxy_variable("http://tinker.example:80/a") == "HTTP_PROXY"
    monkeypatch.setenv("NO_PROXY", "tinker.example")
    assert proxy_variable("http://tinker.example") is None
