"""Secrets: those that redaction removes from manifests, private keys and passwords."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.detectors import secrets
from pytest_crucible.detectors.secrets import SECRET_TYPES, find_secrets
from pytest_crucible.records.redaction import HIDDEN, hider

PEM = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"
FOUND = [
    ("key sk-abcdefghijklmnop1234!", "API_KEY", "sk-abcdefghijklmnop1234"),
    ("AKIAIOSFODNN7EXAMPLE", "API_KEY", "AKIAIOSFODNN7EXAMPLE"),
    ("https://me:pa55@host/", "URL_LOGIN", "me:pa55"),
    ("Bearer eyJhbGciOiJIUzI1.eyJzdWIi.abc", "JSON_WEB_TOKEN", "eyJhbGciOiJIUzI1.eyJzdWIi.abc"),
    ("your password is Tr0ub4dor&3.", "PASSWORD", "Tr0ub4dor&3"),
    ('"api_key": "0a1b2c3d4e"', "PASSWORD", "0a1b2c3d4e"),
    ("Das Passwort lautet geheim123", "PASSWORD", "geheim123"),
    (f"{PEM}\n", "PRIVATE_KEY", PEM),
]  # fmt: skip
NOTHING = [
    "password: required",
    "the password is wrong",
    "a key to success",
    "token count: 12",
    "sk-short",
    "pass it on",
]


@pytest.mark.parametrize(("text", "kind", "value"), FOUND)
def test_a_secret_is_found_whole(text, kind, value):
    assert [(span.type, text[span.start : span.end]) for span in find_secrets(text)] == [(kind, value)]


@pytest.mark.parametrize("text", NOTHING)
def test_words_are_no_secrets(text):
    assert find_secrets(text) == ()


KEYS = st.sampled_from(
    ["sk-abcdefghijklmnop1234", "AKIAIOSFODNN7EXAMPLE", "://me:pa55@h", "eyJhbGciOiJIUzI1.e.a", " ", "ü", "sk-", "@"]
)


@given(st.lists(KEYS, max_size=6).map("".join))
def test_it_finds_what_the_redaction_of_manifests_removes(text):
    spans = [span for span in find_secrets(text) if span.type not in ("PASSWORD", "PRIVATE_KEY")]
    replaced = text
    for span in reversed(spans):
        replaced = replaced[: span.start] + HIDDEN + replaced[span.end :]

    assert replaced == hider()(text)
    assert {span.type for span in spans} <= set(SECRET_TYPES)


PARTS = [
    "://", "a:b@", "a:", "@", ":", "::", "/", " ", "'", "é", "sk-", "hf_", "glpat-", "-", "_", "x", "1" * 15, "1" * 16, "é" * 16,
    "eyJ", "eyJhbGciOiJI", ".e.a", ".", "AKIAIOSFODNN7EXAMPLE", "AKIA", "A" * 16, "AIza", "b" * 29,
]  # fmt: skip
NAMES = [
    *("password", "passwd", "PWD", "Passphrase", "passwort", "Kennwort", "api_key", "secret-key", "authtoken", "ACCESS TOKEN"),
    *("private key", "client_secret", "secret", "key", "my_password", "passwords"),
    *("Pa\u017fsword", "to\u212aen", "auth_to\u212aen", "ap\u0130_key", "cl\u0131ent-secret"),
]  # fmt: skip
BETWEEN = [
    *(":", " = ", " is ", " ist ", " lautet ", "is", "'", '": "', " ", "   ", "    ", ":   ", ":    ", "    :", "=`", "::"),
    *("_is ", " isn ", " i\u017f ", '" is'),
]  # fmt: skip
VALUES = [
    *("hunter2", "required", "Required", "REQUIRED", "rEquired", "abc12", "1234567", "......", "abcd1.!", "abcde.!)", "a1b2c3'"),
    *("\u00e9abcdef", "\u00e9abcde1", "\u65e5" * 6, "pwd:abc123", "x" * 199 + "1", "y1" * 101, "ab\x00cdef"),
]  # fmt: skip


@settings(max_examples=choose_examples(300))
@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join))
def test_any_long_text_is_searched_as_a_short_one_is(text):
    spans = find_secrets(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "LONG", 0)
        assert find_secrets(text) == spans


def join_randomly(parts):
    return "".join(random.Random(1).choices(parts, k=20_000))


LONG_TEXTS = {
    "assignments": "\n".join(map("".join, itertools.product(NAMES, BETWEEN, VALUES))),
    "parts of assignments": join_randomly([*NAMES, *BETWEEN, *VALUES, " ", "\n"]),
    "keys": join_randomly(PARTS),
    "keys of one kind": "\n".join(map("".join, itertools.product(PARTS, PARTS, PARTS))),
}


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_a_long_text_has_the_secrets_that_the_patterns_find(monkeypatch, text):
    spans = find_secrets(text)

    monkeypatch.setattr(secrets, "LONG", len(text) + 1)
    assert len(spans) > 200
    assert find_secrets(text) == spans
