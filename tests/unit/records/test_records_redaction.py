"""Keys are found in settings by their names and in texts by what they are, and nothing else is touched."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records.redaction import HIDDEN, _spellings, hider, redact
from pytest_crucible.records.secret_settings import secrets_in

KEY = "tml-0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("x-api-key: short", "x-api-key: (key hidden)"),
        ("shorter than short", "(key hidden)er than (key hidden)"),
        (f"key={KEY};", "key=(key hidden);"),
        ("a token eyJhbGciOiJ.eyJzdWIi.c2ln", "a token (key hidden)"),
        ("tml-local and html-0123456789abcdef", "tml-local and html-0123456789abcdef"),
    ],
)
def test_keys_are_hidden_known_or_not(text, redacted):
    assert hider({"short"})(text) == redacted


def test_a_key_that_begins_another_leaves_nothing_of_it():
    assert hider({"tml-1", "tml-1-more"})("a tml-1-more b") == "a (key hidden) b"


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"OPENAI_API_KEY": "planted-1"}, {"planted-1"}),
        ({"adapters": {"v2": {"options": {"password": "planted-2", "model": "llama-3"}}}}, {"planted-2"}),
        ({"headers": {"X-Team": "planted-3"}}, {"planted-3"}),
        ({"headers": {"Authorization": "Bearer planted-4"}}, {"Bearer planted-4", "planted-4"}),
        (["--store=postgresql://me:planted-5@host/db"], {"planted-5", "bWU6cGxhbnRlZC01"}),
        ({"url": "https://host/v1?api_key=planted-6&model=m"}, {"planted-6"}),
        (["--proxy-token=planted-7", "-x"], {"planted-7"}),
        ({"api_key_env": "OPENAI_API_KEY", "max_tokens": 100, "key": "abc"}, set()),
        ({"eos_token": "<|endoftext|>", "monkey": "a long name"}, set()),
        ({"X-APIKEY": "planted-8", "my-key": "planted-9"}, {"planted-8", "planted-9"}),
        ({"headers": {"Authorization": "$OTHER_VARIABLE"}}, set()),
        ({"url": "https://[broken", "uri": "a://b"}, set()),
    ],
)
def test_keys_are_found_by_their_names(settings, keys):
    assert set(secrets_in(settings)) == keys


ENVIRONMENT = {
    "TEAM": "planted-1",
    "NUMBER": "planted-2",
    "GATEWAY": "https://host/v1?user=planted-3",
    "HOST": "a-host-name",
    "EMPTY": "",
}


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"base_url": "https://$HOST/v1?user=$TEAM&v=${NUMBER}#model"}, {"planted-1", "planted-2"}),
        ({"base_url": "https://$TEAM@host/v1"}, {"planted-1"}),
        ({"base_url": "$GATEWAY"}, {"planted-3"}),
        ({"v2": "openai+http://host/v1?user=$TEAM#model"}, {"planted-1"}),
        (["--crucible-adapter=openai+http://host/v1?user=$TEAM#model"], {"planted-1"}),
        ({"headers": {"X-Team": "Bearer $TEAM"}}, {"planted-1", "Bearer planted-1"}),
        ({"extra_headers": {"grouped": {"x": "$TEAM", "y": "of $MISSING and ${NUMBER}"}}}, {"planted-1", "planted-2"}),
        ({"default_headers": ["X-Team: $TEAM"]}, {"planted-1", "X-Team: planted-1"}),
        ({"api_key_env": "TEAM", "options": {"password_env": "NUMBER"}}, {"planted-1", "planted-2"}),
        ({"api_key_env": "MISSING", "token_env": "EMPTY", "headers": {"x": "$EMPTY"}}, set()),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "key=planted-4,x=y"}, {"planted-4", "key=planted-4,x=y"}),
        ({"api_key": "$TEAM"}, {"planted-1"}),
        ({"system": "Really? $HOST", "base_url": "https://$HOST/v1?api-version=2024-02-01"}, set()),
    ],
)
def test_variables_that_settings_fill_in_are_keys(settings, keys):
    assert set(secrets_in(settings, ENVIRONMENT)) == keys


@pytest.mark.parametrize(
    "redacted", ["a+b/c=d&e'", "a%2Bb%2Fc%3Dd%26e%27", "a%2Bb/c%3Dd%26e%27", "a+b/c=d&amp;e&#x27;"]
)
def test_a_key_is_hidden_as_urls_and_pages_write_it(redacted):
    assert hider({"a+b/c=d&e'"})(f"GET /v1?key={redacted} failed") == f"GET /v1?key={HIDDEN} failed"


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-0123456789abcdefghij",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "hf_0123456789abcdefghij",
        "AKIA0123456789ABCDEF",
        "postgresql://me:word@host/db",
    ],
)
def test_a_text_that_looks_like_a_key_is_hidden(text):
    assert HIDDEN in hider()(f"it says {text}.")


@pytest.mark.parametrize("key", ["eyJ12345678.a.b", "sk-0123456789abcdef", "http://a:b@c"])
def test_the_shortest_keys_are_hidden_even_alone(key):
    assert HIDDEN in hider()(key)


@pytest.mark.parametrize(
    "text", ["risk-averse people", "max_tokens: 512", "see https://host:8080/v1/chat", "a@b.org", "6: 7@8"]
)
def test_other_texts_are_left(text):
    assert hider()(text) == text


@given(st.text(min_size=6), st.text(), st.text())
def test_no_known_key_is_left_anywhere(key, before, after):
    hide = hider({key})

    redacted = redact({"a": [before + key + after, 1, None], "b": (key,)}, hide)

    assert redacted["b"] == (HIDDEN,)
    assert key in HIDDEN or key not in redacted["a"][0].replace(HIDDEN, "\0")
    assert redacted["a"][1:] == [1, None]


SERVICES = "tml|sk|rk|pk|hf|ghp|gho|ghu|ghs|ghr|glpat|xoxa|xoxb|xoxp|xoxr|xoxs"
EVERYWHERE = (
    r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"
    rf"|\b(?:{SERVICES})[-_][\w-]{{16,}}|\bAKIA[0-9A-Z]{{16}}\b|\bAIza[\w-]{{30,}}"
    r"|(?<=://)[^/\s@'\"]+:[^/\s@'\"]+(?=@)"
)
"""The definition of a key: one expression, tried at every position."""
SECRETS = ("planted", "planted-1", "a/b c&", "eyJplanted", "sk-", "://x")
PARTS = (
    "://me:secret@host", "eyJabcdefgh.ij.kl", "AIza" + "c1" * 16, "AKIA" + "B" * 16, "sk-" + "B" * 16, "tml_" + "c" * 16,
    "glpat-" + "d" * 16, "xoxb-" + "e" * 16, "://", "me:secret@", "::", "@", "/", "AIza", "AKIA", "sk-", "xoxb-", "eyJ", "B" * 16,
    " ", "-", "_", ".", "é", "a", "-" * 16, "_" * 20, "sk", "ghs", "A1" * 8, *SECRETS, "a%2Fb+c%26",
)  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=9), st.sets(st.sampled_from(SECRETS)))
def test_keys_are_hidden_as_if_every_position_was_tried(pieces, secrets):
    """Looking only at possible starts of a key is quicker, and changes nothing."""
    text = "".join(pieces)
    spelled = sorted({spelling for secret in secrets for spelling in _spellings(secret)}, key=len, reverse=True)
    definition = re.compile("|".join([*map(re.escape, spelled), EVERYWHERE]))

    assert hider(secrets)(text) == definition.sub(HIDDEN, text)


@pytest.mark.parametrize(
    "text", ["eyJ" * 10**5, "://" + "a:" * 10**5, "sk-" * 10**5, "-" * 10**6, "://" * 10**5, "-_" * 10**5]
)
def test_no_text_takes_quadratic_time(text):
    started = time.perf_counter()
    hider({"planted"})(text)

    assert time.perf_counter() - started < 10


def test_names_of_fields_are_redacted_and_no_value_is_lost():
    data = {"a@b": 1, "c@b": {"d@b": 2}, "*** 2": 3, "e": 4}

    assert redact(data, lambda text: re.sub(r"\w@b", "***", text)) == {
        "***": 1,
        "*** 2": {"***": 2},
        "*** 2 2": 3,
        "e": 4,
    }
