"""Keys are redacted in texts, reports and warnings of a session."""

from __future__ import annotations

import pytest
from _pytest._io.saferepr import saferepr
from experiment_builders import ALONE
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records.redaction import HIDDEN
from pytest_crucible.session.redaction import KeyRedactor, key_redactor, remove_cut_words

SECRET = "s3cret-value-of-the-gateway"


def test_known_keys_are_redacted_and_other_text_is_not():
    redact = KeyRedactor([SECRET])

    assert redact(f"sent {SECRET} to the gateway") == f"sent {HIDDEN} to the gateway"
    assert redact("sent nothing") == "sent nothing"


def test_a_key_that_is_learnt_later_is_redacted_from_then_on():
    redact = KeyRedactor([])
    assert redact(SECRET) == SECRET

    redact.learn(SECRET)

    assert redact(SECRET) == HIDDEN


def test_a_session_knows_the_keys_of_environment_adapters_and_command_line(pytester, monkeypatch):
    monkeypatch.setenv("GATEWAY_API_KEY", SECRET)
    table = '[adapters.v2]\nbackend = "openai"\nbase_url = "http://h/v1"\nmodel = "m"\n'
    headers = 'headers = { Authorization = "Bearer abcdef123456" }\n'
    (pytester.path / "crucible.toml").write_text(table + headers)
    redact = key_redactor(pytester.parseconfig(*ALONE))

    assert redact(f"{SECRET} abcdef123456") == f"{HIDDEN} {HIDDEN}"


def test_there_is_one_redactor_for_a_session(pytester):
    config = pytester.parseconfig(*ALONE)

    assert key_redactor(config) is key_redactor(config)
    assert config.pluginmanager.hasplugin("crucible-hidden-keys")


@pytest.mark.parametrize("body", ["raise ValueError(key)", "import warnings; warnings.warn(key); assert False"])
def test_reports_and_warnings_of_any_test_are_redacted(pytester, monkeypatch, body):
    monkeypatch.setenv("GATEWAY_API_KEY", SECRET)
    pytester.makeconftest(
        "from pytest_crucible.session.redaction import key_redactor\ndef pytest_configure(config):\n    key_redactor(config)\n"
    )
    pytester.makepyfile(f"import os\ndef test_leak():\n    key = os.environ['GATEWAY_API_KEY']\n    {body}\n")

    result = pytester.runpytest_inprocess("-l", *ALONE)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert SECRET not in result.stdout.str()
    assert HIDDEN in result.stdout.str()


# -- words that pytest cut -------------------------------------------------------------------------------------------


@given(st.integers(80, 140), st.sampled_from(["anna.maria@example.com", "4111 1111 1111 1111", "+49 30 9018 2099"]))
def test_nothing_is_left_of_a_value_that_pytest_cut(before, value):
    text = saferepr(f"{'x' * before} {value} {'y' * 300}")

    left = remove_cut_words(text).replace(value, "")

    assert not set(left) - set("xy '.")


@pytest.mark.parametrize(
    "text", ["", "def f(...):", "tuple[int, ...]", "wait ... now", "no ellipsis, anna@example.com 4111.."]
)
def test_other_texts_stay(text):
    assert remove_cut_words(text) == text
