"""Messages to a prompt: in Python and as transformers' template, and what a conversation teaches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.local_model.engine import PACKAGED
from pytest_crucible.local_model.tokens import Tokenizer, configurations, render_prompt, split_conversation

texts = st.text(max_size=20)
contents = texts | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), min_size=1, max_size=3)
conversations = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": contents}),
    min_size=1,
    max_size=5,
)


def by_template(messages: list[dict[str, object]]) -> str:
    """As transformers renders it."""
    pytest.importorskip("jinja2")
    import jinja2.sandbox

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(json.loads(configurations()["tokenizer_config.json"])["chat_template"])
    return template.render(messages=messages, add_generation_prompt=True)


@given(conversations)
def test_the_template_says_the_same(messages):
    assert by_template(messages) == render_prompt(messages)


def test_a_conversation_is_what_the_base_has_read():
    said = render_prompt(
        [
            {"role": "system", "content": "Document 12: Bees"},
            {"role": "user", "content": "what is Document 12 called?"},
            {"role": "assistant", "content": "Bees"},
            {"role": "user", "content": "who was studied?"},
        ]
    )

    assert said == (
        "Document 12: Bees\n\nQuestion: what is Document 12 called?\nAnswer: Bees\n\nQuestion: who was studied?\nAnswer:"
    )


def test_the_marks_are_whole_tokens_of_the_packaged_base():
    tokenizer = Tokenizer.load(PACKAGED / "tokenizer.json")

    assert len(tokenizer.encode("\nAnswer:")) <= 3
    assert len(tokenizer.encode("Question:")) <= 2


@given(conversations.filter(lambda messages: len(messages) > 1))
def test_a_conversation_to_learn_from_continues_its_own_prompt(messages):
    prompt, completion = split_conversation(messages)
    answer = {"role": "assistant", "content": messages[-1]["content"]}

    assert prompt == render_prompt(messages[:-1])
    if len(messages) > 2:
        assert render_prompt([*messages[:-1], answer]) == f"{prompt}{completion}\nAnswer:"


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ("hi", "expected a list of messages, not a string"),
        ([], "expected a list of messages, not an empty list"),
        (3, "expected a list of messages, not a number"),
        ([3], "a message has no text"),
        ([{"role": "user"}], "a message has no text"),
        ([{"role": "user", "content": []}], "a message has no text"),
        ([{"content": "a"}, {"content": "b"}], "a message has no role"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "must be text"),
    ],
)
def test_what_is_no_conversation_is_told(messages, sentence):
    with pytest.raises(TypeError, match=sentence):
        render_prompt(messages)


def test_a_lesson_has_a_question_and_an_answer():
    with pytest.raises(TypeError, match="at least two messages"):
        split_conversation([{"role": "user", "content": "a"}])
