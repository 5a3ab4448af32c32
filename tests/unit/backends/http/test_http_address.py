"""Base URLs: read into their parts, and refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.http.client import Address, parse_address


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("HTTPS://API.Example.com:443/v1/", "https://api.example.com/v1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://modèle.example/v1", "http://xn--modle-6ra.example/v1"),
        ("http://[fe80::1%25eth0]:8000/v1", "http://[fe80::1%eth0]:8000/v1"),
        ("http://model.example/für%20alle/v1", "http://model.example/f%C3%BCr%20alle/v1"),
    ],
)
def test_equal_urls_parse_alike(url, same):
    assert parse_address(url).url == same


@given(
    st.sampled_from(["http", "https"]),
    st.from_regex(r"[a-z][a-z0-9]{0,10}(\.[a-z]{2,5})?", fullmatch=True),
    st.integers(1, 65535),
    st.from_regex(r"(/[a-z0-9]{1,5}){0,3}", fullmatch=True),
    st.from_regex(r"([a-z-]{1,5}=[0-9]{1,3}(&b=%20)?)?", fullmatch=True),
)
def test_parsing_a_normalised_url_is_idempotent(scheme, host, port, path, query):
    address = Address(scheme, host, port, path, query)

    assert parse_address(address.url) == address


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("localhost:8000/v1", "'localhost:8000/v1' is not a URL of a server: write http://HOST:PORT/v1"),
        ("127.0.0.1", "is not a URL of a server"),
        ("ftp://host/v1", "is not a URL of a server"),
        ("http:///v1", "is not a URL of a server"),
        ("http://host /v1", "is not a URL of a server"),
        ("http://host\r\nx: y/v1", "is not a URL"),
        ("http://host:port/v1", "is not a URL"),
        ("http://[::1/v1", "is not a URL"),
        ("http://host:0/v1", "is not a URL"),
        ("http://a b/v1", "is not a URL"),
        ("http://host..example/v1", "is not a valid host name"),
        ("http://.example/v1", "is not a valid host name"),
        ("http://\u2024/v1", "is not a valid host name"),
        (f"http://{'a' * 64}.example/v1", "is not a valid host name"),
        ("http://host/v1#m", "has a fragment"),
        ("http://user:hidden@host/v1", "it contains a user or a password: keep them in an environment variable"),
    ],
)
def test_invalid_urls_are_refused_without_the_password(url, sentence):
    with pytest.raises(
        ValueError, match=r"is not a URL|has a fragment|contains a user|is not a valid host name"
    ) as caught:
        parse_address(url)

    assert sentence in str(caught.value)
    assert "hidden" not in str(caught.value)
