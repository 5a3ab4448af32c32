"""Texts as the store has them: redacted once, and as prompt forms."""

from __future__ import annotations

import contextlib
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_secrets import SEEN, make_harmless, make_secrets

from pytest_crucible.records.redaction import hider
from pytest_crucible.records.secret_settings import hide_encoded
from pytest_crucible.store import redactors, schema
from pytest_crucible.store.database import ROWS_PER_STATEMENT
from pytest_crucible.store.redactors import SHORTEST, IdRedactor, ParameterRedactor, RedactOnce
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import (
    form_key,
    form_of,
    messages_of,
    pack_form,
    sample_texts,
    sanitize_text,
    text_form,
    unpack_form,
)

texts = st.one_of(st.text(max_size=20), st.text(min_size=SHORTEST, max_size=2 * SHORTEST))


@given(st.lists(texts, max_size=20), st.lists(st.integers(0, 19), max_size=40))
def test_it_returns_what_redaction_returns(drawn, order):
    hide = hider({"a", "secret"})
    once = RedactOnce(hide)

    assert [once(drawn[k]) for k in order if k < len(drawn)] == [hide(drawn[k]) for k in order if k < len(drawn)]


def test_a_copy_of_a_text_is_the_same_text():
    calls: list[str] = []
    once = RedactOnce(lambda text: calls.append(text) or text.upper())

    assert once("x" * SHORTEST) == once("".join(["x"] * SHORTEST)) == "X" * SHORTEST
    assert len(calls) == 1


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(redactors, "MOST_TEXTS", 10)
    monkeypatch.setattr(redactors, "MOST_CHARACTERS", 50 * SHORTEST)
    once = RedactOnce(str)
    for k in range(1_000):
        once(f"{k:0{SHORTEST}}")
        assert len(once._young) + len(once._old) <= 20
    for k in range(100):
        once(f"{k:0{40 * SHORTEST}}")
        assert sum(map(len, [*once._young, *once._old])) <= 4 * 50 * SHORTEST


def test_values_of_a_statement_are_redacted_as_if_each_were_alone():
    hide = hider({"a value without a form", "two\nlines"})
    redactor = ParameterRedactor(hide, lambda text: False)
    secrets = [text for _, _, text in make_secrets(SEEN, 1)]
    parts = [
        "",
        "a value without a form",
        "two",
        "lines",
        "the two\nlines",
        r'"see\nsk-0123456789abcdef"',
        "sk-",
        "://me:pass@",
    ]
    drawn = [*secrets, *parts, *(text for _, text in make_harmless(2))]
    random.Random(3).shuffle(drawn)

    for start in range(0, len(drawn), 5):
        row = (start, None, *drawn[start : start + 5])
        redacted = tuple(hide_encoded(value, hide) if isinstance(value, str) else value for value in row)
        assert redactor.redact_values(row) == redacted
        by_name = {str(number): value for number, value in enumerate(row)}
        assert tuple(redactor.redact_values(by_name).values()) == redacted


KEY = "sk-proj-0123456789abcdef"
ROW = {"run": "r", "at": "now", "promoted": False, "forced": False}
MANY = ROWS_PER_STATEMENT + 1


@pytest.fixture
def store(tmp_path):
    store = RunStore(str(tmp_path / "runs.db"), hider(["a value without a form"]))
    yield store
    store.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda connection, name: connection.insert(schema.tags, [{"name": name, **ROW}]),
        lambda connection, name: connection.insert(
            schema.tags, [{"name": name, **ROW, "run": str(k)} for k in range(MANY)]
        ),
        lambda connection, name: connection.execute("UPDATE tags SET name = :name", name=name),
        lambda connection, name: connection.execute_many("UPDATE tags SET name = :name", [{"name": name}]),
        lambda connection, name: connection.execute_many("UPDATE tags SET name = ?", [("b",), (name,)]),
    ],
)
@pytest.mark.parametrize(
    "key", [KEY, "a value without a form", json.dumps([f"line\n{KEY}"]), json.dumps(json.dumps(f"\u2028{KEY}"))]
)
def test_no_way_of_writing_takes_a_key(store, write, key):
    with store.begin() as connection:
        connection.insert(schema.tags, [{"name": "plain", **ROW, "run": "s"}])
        write(connection, key)
        names = list(connection.scalars("SELECT name FROM tags"))

        assert not any(KEY in name or "without a form" in name for name in names)
        assert any("(key hidden)" in name for name in names)
        # What is looked up by such a name is found by it.
        assert connection.scalar("SELECT id FROM tags WHERE name = :name", name=key)
        assert connection.scalar("SELECT id FROM tags WHERE name IN (:names)", names=[key])


def test_hidden_ids_stay_apart_and_equal():
    redact, again = (IdRedactor(hider(), b"the store's key") for _ in range(2))
    ids = [f"sk-learn-regression-{k:04}" for k in range(200)]

    assert len({redact(entry) for entry in ids}) == 200
    assert [redact(entry) for entry in ids] == [again(entry) for entry in ids]
    assert redact("s1") == "s1"
    assert redact(ids[0]) != IdRedactor(hider(), b"another store's")(ids[0])


def test_many_ids_are_hidden_as_each_alone_would_be(tmp_path):
    draw = random.Random(0)
    secrets = [text for _, text, _ in make_secrets(SEEN, 1)][::4]
    plain = [f"q{k}" for k in range(20)]
    with contextlib.closing(RunStore(str(tmp_path / "runs.db"))) as store:
        for secret in secrets:
            ids = [*plain, secret, f"{secret}\u00e9", f"two\nlines {secret}"]
            draw.shuffle(ids)

            assert store.hide_ids(ids) == [store.hide_id(sanitize_text(each)) for each in ids]
        assert store.hide_ids(plain) == plain


any_texts = st.text(max_size=20) | st.sampled_from(
    ["The sky is green", "sky", 'a "quoted" \\ line\n', "\x01i0\x02", "ü", "\ud83d"]
)
samples = (
    any_texts | st.dictionaries(any_texts, any_texts | st.integers() | st.lists(any_texts), max_size=3) | st.none()
)


@st.composite
def conversations(draw):
    """A sample, and messages that are made of its any_texts and of others."""
    sample, metadata = draw(samples), draw(st.dictionaries(any_texts, any_texts, max_size=2))
    expected = [*sample_texts(sample, metadata).values(), "other", ""]
    parts = st.lists(st.sampled_from(expected) | any_texts, max_size=4).map("".join)
    messages = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": parts}), max_size=3)
    return sample, metadata, draw(parts | messages | st.lists(st.integers(), max_size=3))


@given(conversations())
def test_messages_come_back_as_they_were_sent(conversation):
    sample, metadata, messages = conversation
    of_sample = sample_texts(sample, metadata)

    assert messages_of(unpack_form(pack_form(form_of(messages, of_sample))), of_sample) == messages


def test_one_prompt_around_the_texts_of_many_samples_is_one_form():
    forms = set()
    for k in range(20):
        sample = {"claim": f"Claim number {k} of 20", "passages": [f"The first of {k}", f"The second of {k}"]}
        prompt = f"Read: {sample['passages'][0]} {sample['passages'][1]}\nIs this so? {sample['claim']}"
        forms.add(form_of([{"role": "user", "content": prompt}], sample_texts(sample, {})))

    assert len(forms) == 1


def test_earlier_replies_are_referred_to():
    first, later = "It is green, I am sure.", "Are you?"
    any_texts = {"i0": text_form("The sky"), "r1": text_form(first)}
    form = form_of([{"role": "assistant", "content": first}, {"role": "user", "content": later}], any_texts)

    assert first not in form
    assert later in form


def test_the_longest_text_is_replaced_first():
    any_texts = sample_texts({"short": "green", "whole": "the sky is green"}, {})

    assert form_of("the sky is green", any_texts) == '"\x01i1\x02"'


def test_a_form_that_refers_to_nothing_known_is_not_guessed():
    with pytest.raises(KeyError):
        messages_of('"\x01r1\x02"', {})


def test_equal_forms_have_one_key_and_a_long_one_is_compressed():
    form = form_of("word " * 100, {})

    assert form_key(form) == form_key(form_of("word " * 100, {})) != form_key(form_of("word", {}))
    assert -(2**63) <= form_key(form) < 2**63
    assert len(pack_form(form)) < 50
