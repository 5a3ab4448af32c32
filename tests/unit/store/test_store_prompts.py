"""Hashes of prompts: equal exactly where the messages are, whatever form the store has them in."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.store.prompts import prompt_hash, read_form
from pytest_crucible.store.texts import form_of, sample_texts

WORDS = st.text('ab"\\é \n', max_size=6)
INPUTS = WORDS | st.lists(WORDS, max_size=2) | st.dictionaries(st.sampled_from("kl"), WORDS, max_size=2)


def stored_hash(messages, prompt, metadata):
    form = read_form(form_of(messages, sample_texts(prompt, metadata)))
    return prompt_hash(form, json.dumps(prompt), json.dumps(metadata))


@given(INPUTS, st.dictionaries(st.sampled_from("mn"), WORDS, max_size=2), WORDS, WORDS)
def test_a_prompt_has_one_hash_in_every_form(prompt, metadata, before, after):
    messages = [{"role": "user", "content": f"{before}{prompt}{after}{metadata}"}]

    assert stored_hash(messages, prompt, metadata) == stored_hash(messages, "something else", {})


@given(INPUTS, INPUTS)
def test_inputs_that_are_sent_unchanged_have_equal_hashes_if_they_are_equal(first, second):
    hashes = [prompt_hash(None, json.dumps(each), "null") for each in (first, second)]

    assert (hashes[0] == hashes[1]) == (first == second)
    assert hashes[0] == stored_hash(first, second, {})
