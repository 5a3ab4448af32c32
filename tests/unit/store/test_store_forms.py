"""Forms of conversations: each long text stands apart, once, whatever was sent before and however often."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.store.forms import (
    ConversationForms,
    SplitForm,
    expand_form,
    join_parts,
    load_forms,
    split_conversation,
    texts_apart,
)
from pytest_crucible.store.texts import (
    SHORTEST_APART,
    form_key,
    form_of,
    messages_of,
    pack_form,
    text_form,
    text_of_input,
)

json_loads = json.loads
LONG = "A file of many lines.\n" * 20
REPLY = {"role": "assistant", "content": "I read it."}


def split(messages: Any, **texts: str) -> SplitForm:
    return whole(ConversationForms(str), messages, {name: text_form(text) for name, text in texts.items()})


def whole(forms: ConversationForms, messages: Any, texts: dict[str, str]) -> SplitForm:
    return join_parts(forms.parts(messages, texts))


def sent(forms: ConversationForms, messages: Any, texts: dict[str, str]) -> SplitForm:
    """Return the form of messages as a unit sends them: those of an earlier call are not read again."""
    written = text_of_input(messages)
    parts = forms.extend(written, texts)
    return join_parts(forms.begin(written, messages, texts) if parts is None else parts)


def result(text: str) -> dict[str, str]:
    return {"role": "tool", "content": text}


def test_a_long_text_of_a_conversation_stands_apart():
    form, body, texts = split([REPLY, result(LONG)])

    assert form == form_of([REPLY, result(LONG)], {})
    assert list(texts.values()) == [text_of_input(LONG)]
    assert texts_apart(body) == list(texts) == [form_key(text_of_input(LONG))]
    assert len(body) < 150
    assert expand_form(body, texts) == form


def test_the_first_messages_of_a_unit_stay_whole():
    # Those of all samples are mostly one form.
    form, body, texts = split([{"role": "user", "content": LONG}])

    assert (body, texts) == (form, {})


def test_short_texts_stay_where_they_are():
    assert split([REPLY, result("short")]).texts == {}


def test_a_text_that_refers_to_the_sample_stands_apart_with_the_reference():
    form, body, texts = split([REPLY, result(f"{LONG} of q17")], i0="of q17")

    assert list(texts.values()) == [f'{text_of_input(LONG)[:-1]} \x01i0\x02"']
    assert messages_of(expand_form(body, texts), {"i0": "of q17"}) == [REPLY, result(f"{LONG} of q17")]
    assert form == form_of([REPLY, result(f"{LONG} of q17")], {"i0": "of q17"})


def test_a_text_that_is_a_reference_alone_is_no_text_of_its_own():
    assert split([REPLY, result(LONG)], i0=LONG).texts == {}


def test_a_later_reply_within_an_earlier_text_does_not_store_it_again():
    forms = ConversationForms(str)
    first = whole(forms, [REPLY, result(LONG)], {})

    second = whole(forms, [REPLY, result(LONG), {"role": "assistant", "content": "many lines"}], {"r2": "many lines"})

    assert second.texts == first.texts
    assert second.body.count("\x01r2\x02") == 1


def test_the_tools_that_a_reply_calls_share_their_arguments_with_the_next_call():
    call = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": json.dumps({"text": LONG})}}

    assert split([call]).texts == split([{**REPLY, "tool_calls": [call]}]).texts != {}


@pytest.mark.parametrize("text", ["u0003", "0003", "\\u0003", '"', "\x03"])
def test_texts_that_look_like_a_mark_are_texts(text):
    messages = [REPLY, result(LONG), result(text), result("\x03")]

    form, body, texts = split(messages, i0=text)

    assert messages_of(expand_form(body, texts), {"i0": text_form(text)}) == messages
    assert expand_form(body, texts) == form


def test_a_key_that_looks_like_a_mark_is_a_key():
    messages = [REPLY, {**result(LONG), "\x03": 1}]

    _, body, texts = split(messages)

    assert messages_of(expand_form(body, texts), {}) == messages


TEXTS = st.one_of(st.text(max_size=30), st.text(min_size=1, max_size=8).map(lambda text: text * SHORTEST_APART))
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": TEXTS}), max_size=4
)


def conversations(turns: list[list[dict[str, str]]]) -> st.SearchStrategy[list[list[dict[str, str]]]]:
    """Draw the messages of calls: some send those of the call before again, and others start afresh."""
    grown = [[message for turn in turns[: number + 1] for message in turn] for number in range(len(turns))]
    return st.tuples(*(st.sampled_from([turn, whole]) for turn, whole in zip(turns, grown, strict=True))).map(list)


@given(st.lists(MESSAGES, max_size=3).flatmap(conversations), st.lists(st.text(min_size=3, max_size=9), max_size=3))
def test_any_conversation_is_read_as_it_was_sent(calls, replies):
    forms = ConversationForms(str)
    texts = {f"r{number}": text_form(text) for number, text in enumerate(replies)}
    for messages in calls:
        form, body, apart = sent(forms, messages, texts)

        assert messages_of(form, texts) == messages
        assert expand_form(body, apart) == form
        # Equal forms are stored alike, in whatever order texts and replies came.
        assert split_conversation(form) == (form, body, apart)


def test_texts_names_and_short_words_are_redacted_once():
    hidden: list[str] = []

    def hide(text: str) -> str:
        hidden.append(text)
        return text.replace("Ann", "(name)")

    forms = ConversationForms(hide)
    messages = [REPLY, result(f"{LONG} Ann"), {"role": "user", "content": "Ann", "of Ann": "Ann is a name here"}]
    form = whole(forms, messages, {}).form
    assert whole(forms, messages, {}).form == form

    assert "Ann" not in form
    assert messages_of(form, {})[-1] == {"role": "user", "content": "(name)", "of (name)": "(name) is a name here"}
    assert hidden.count(f"{LONG} Ann") == 1


def test_a_redaction_that_looks_like_a_mark_is_a_text():
    forms = ConversationForms(lambda text: "\x03" if text == "Ann" else text)

    _, body, texts = whole(forms, [REPLY, result("Ann"), result(LONG)], {})

    assert messages_of(expand_form(body, texts), {}) == [REPLY, result("\x03"), result(LONG)]


def test_messages_that_were_sent_before_are_not_read_again(monkeypatch):
    forms, first = ConversationForms(str), [REPLY, result(LONG)]
    sent(forms, first, {})
    read: list[str] = []
    monkeypatch.setattr("pytest_crucible.store.forms.json.loads", lambda text: read.append(text) or json_loads(text))

    assert sent(forms, [*first, result("7")], {}).form == text_of_input([*first, result("7")])
    assert read == [f"[{text_of_input(result('7'))}]"]
    assert sent(forms, [result("7")], {}).form == text_of_input([result("7")])


def test_other_messages_of_the_same_length_are_read_from_the_start():
    forms, texts = ConversationForms(str), {}
    sent(forms, [result("one"), REPLY], texts)
    messages = [result("two"), REPLY, result("three")]

    assert sent(forms, messages, texts).form == form_of(messages, {})


def test_forms_are_loaded_whole_or_not_at_all():
    form, body, texts = split([REPLY, result(LONG)])
    stored = {form_key(form): pack_form(body), **{key: pack_form(text) for key, text in texts.items()}}

    def rows(sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return [(key, stored[key]) for key in values["keys"] if key in stored]

    assert load_forms(rows, [form_key(form), 3]) == {form_key(form): form}
    for key in texts:
        del stored[key]
    assert load_forms(rows, [form_key(form)]) == {}
