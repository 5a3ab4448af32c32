"""Messages as forms: what comes back is what was sent, and what samples have in common is stored once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.store.texts import form_key, form_of, messages_of, pack_form, sample_texts, text_form, unpack_form

texts = st.text(max_size=20) | st.sampled_from(
    ["The sky is green", "sky", 'a "quoted" \\ line\n', "\x01i0\x02", "ü", "\ud83d"]
)
samples = texts | st.dictionaries(texts, texts | st.integers() | st.lists(texts), max_size=3) | st.none()


@st.composite
def conversations(draw):
    """A sample, and messages that are made of its texts and of others."""
    sample, metadata = draw(samples), draw(st.dictionaries(texts, texts, max_size=2))
    expected = [*sample_texts(sample, metadata).values(), "other", ""]
    parts = st.lists(st.sampled_from(expected) | texts, max_size=4).map("".join)
    messages = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": parts}), max_size=3)
    return sample, metadata, draw(parts | messages | st.lists(st.integers(), max_size=3))


@given(conversations())
def test_messages_come_back_as_they_were_sent(conversation):
    sample, metadata, messages = conversation
    texts = sample_texts(sample, metadata)

    assert messages_of(unpack_form(pack_form(form_of(messages, texts))), texts) == messages


def test_one_prompt_around_the_texts_of_many_samples_is_one_form():
    forms = set()
    for k in range(20):
        sample = {"claim": f"Claim number {k} of 20", "passages": [f"The first of {k}", f"The second of {k}"]}
        prompt = f"Read: {sample['passages'][0]} {sample['passages'][1]}\nIs this so? {sample['claim']}"
        forms.add(form_of([{"role": "user", "content": prompt}], sample_texts(sample, {})))

    assert len(forms) == 1


def test_earlier_replies_are_referred_to():
    first, later = "It is green, I am sure.", "Are you?"
    texts = {"i0": text_form("The sky"), "r1": text_form(first)}
    form = form_of([{"role": "assistant", "content": first}, {"role": "user", "content": later}], texts)

    assert first not in form
    assert later in form


def test_the_longest_text_is_replaced_first():
    texts = sample_texts({"short": "green", "whole": "the sky is green"}, {})

    assert form_of("the sky is green", texts) == '"\x01i1\x02"'


def test_a_form_that_refers_to_nothing_known_is_not_guessed():
    with pytest.raises(KeyError):
        messages_of('"\x01r1\x02"', {})


def test_equal_forms_have_one_key_and_a_long_one_is_compressed():
    form = form_of("word " * 100, {})

    assert form_key(form) == form_key(form_of("word " * 100, {})) != form_key(form_of("word", {}))
    assert -(2**63) <= form_key(form) < 2**63
    assert len(pack_form(form)) < 50
