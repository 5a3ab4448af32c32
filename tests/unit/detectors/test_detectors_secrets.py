"""Secrets: those that redaction removes from manifests, private keys and passwords."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_secrets import SEEN, UNSEEN, make_harmless, make_secrets

from pytest_crucible.detectors.secrets import SECRET_TYPES, find_secrets
from pytest_crucible.records.redaction import HIDDEN, hider

PEM = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"
FOUND = [
    ("key sk-abcdefghijklmnop1234!", "API_KEY", "sk-abcdefghijklmnop1234"),
    ("AKIAQ3X7ZP2L5M8R1T4V", "API_KEY", "AKIAQ3X7ZP2L5M8R1T4V"),
    ("https://me:pa55@host/", "URL_LOGIN", "me:pa55"),
    ("Bearer eyJhbGciOiJIUzI1.eyJzdWIi.abc", "JSON_WEB_TOKEN", "eyJhbGciOiJIUzI1.eyJzdWIi.abc"),
    ("your password is Tr0ub4dor&3.", "PASSWORD", "Tr0ub4dor&3"),
    ('"api_key": "0a1b2c3d4e"', "PASSWORD", "0a1b2c3d4e"),
    ("Das Passwort lautet geheim123", "PASSWORD", "geheim123"),
    (f"{PEM}\n", "PRIVATE_KEY", PEM),
]  # fmt: skip
NOTHING = [
    "password: required", "the password is wrong", "a key to success", "token count: 12", "sk-short", "pass it on",
    "password=********", "DB_PASSWORD=${DB_PASSWORD}", "password: $PASSWORD", "api_key = <your-key>",
    "API_KEY=YOUR_API_KEY_HERE", "token: {{ token }}", "password: changeme", "secret = os.environ['SECRET_1']",
    "password = get_password(user)", "PASSWORD=/run/secrets/db_1", "api_key: Optional[str] = None",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx", "AKIAIOSFODNN7EXAMPLE", "postgres://user:password@localhost/db",
    "postgres://app:${PASSWORD}@localhost/db", "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
    "chatcmpl-9fJ2kLmN3pQrS4tUvWxYz5aBcDeFg", "sha256-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15",
    "hf_raise_for_status(response)", "primary_key = user_id_12345678abc", "pad_token: [PAD]",
    "next_page_token=4f7c2d9e1b3a5f6e8d0c", "max_tokens=4096", "The password is base64-encoded", "monkey: banana12345",
    "Authorization: Bearer authentication",
]  # fmt: skip
# Names without values: each is followed by a made-up one.
NAMED = [
    "DB_PASSWORD={}", "export PGPASSWORD='{}'", "WANDB_API_KEY={}", "aws_secret_access_key = {}", "Authorization: Bearer {}",
    "Authorization: Token {}", '{{"dbPassword": "{}"}}', "- name: DB_PASSWORD\n  value: {}", "X-Api-Key: {}",
    "Server=db;Uid=sa;Password={};Encrypt=true", "AccountKey={};Suffix=x", "https://h/v1?api_key={}&q=1",
    "tool --api-key {} run", "curl -u admin:{} https://h", "my api key is {}", "Das neue Passwort lautet {}",
    "define('DB_PASSWORD', '{}');", "<password>{}</password>", '<add key="DbPassword" value="{}"/>',
    'variable "db_password" {{ default = "{}" }}', "//registry.example.org/:_authToken={}", "password: str = '{}'",
    '{{\\"password\\": \\"{}\\"}}', "redis://:{}@cache:6379", "db.example.org:5432:app:me:{}",
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "value"), FOUND)
def test_a_secret_is_found_whole(text, kind, value):
    assert [(span.type, text[span.start : span.end]) for span in find_secrets(text)] == [(kind, value)]


@pytest.mark.parametrize("text", NOTHING)
def test_words_are_no_secrets(text):
    assert find_secrets(text) == ()


@pytest.mark.parametrize("form", NAMED)
def test_a_secret_is_found_by_the_name_before_it(form):
    value = "kT9x2vqz8Lm4Rw7P"
    text = form.format(value)

    spans = find_secrets(text)

    assert any(text[span.start : span.end].lstrip(":") == value for span in spans)


@pytest.mark.parametrize("kinds", [SEEN, UNSEEN], ids=["seen", "unseen"])
def test_most_made_up_secrets_of_many_kinds_are_found(kinds):
    """The benchmark prints these shares for other draws."""
    result = [
        any(span.start < text.index(value) + len(value) and text.index(value) < span.end for span in find_secrets(text))
        for _, text, value in make_secrets(kinds, seed=7)
    ]

    assert len(kinds) >= 20
    assert sum(result) / len(result) >= 0.95


def test_few_placeholders_sentences_and_identifiers_are_found():
    flagged = [bool(find_secrets(text)) for _, text in make_harmless(seed=7)]

    assert len(flagged) > 1_000
    assert sum(flagged) / len(flagged) <= 0.01


def test_a_key_of_an_unlisted_service_is_found_unless_its_body_is_an_example():
    assert [span.type for span in find_secrets("acme_secret_Zk3r91TxPq44LmWc02Vb5567")] == ["API_KEY"]
    assert find_secrets("acme_secret_YOUR1KEY2HERE3EXAMPLE4") == ()


KEYS = st.sampled_from(
    ["sk-abcdefghijklmnop1234", "AKIAQ3X7ZP2L5M8R1T4V", "://me:pa55@h", "eyJhbGciOiJIUzI1.e.a", " ", "ü", "sk-", "@"]
)


@given(st.lists(KEYS, max_size=6).map("".join))
def test_keys_that_manifests_redact_are_found(text):
    spans = [span for span in find_secrets(text) if span.type not in ("PASSWORD", "PRIVATE_KEY")]
    replaced = text
    for span in reversed(spans):
        replaced = replaced[: span.start] + HIDDEN + replaced[span.end :]

    assert replaced == hider()(text)
    assert {span.type for span in spans} <= set(SECRET_TYPES)
