"""The shape of a prompt is all of it but the text that varies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.run_checks.prompt_shapes import (
    VARIES,
    ShapedPrompt,
    occurs,
    prompts_before_answers,
    shape_prompt,
    summarise_shapes,
)

QUESTIONS = [f"What is {k} + {k * k}?" for k in range(20)]
SYSTEM = {"role": "system", "content": "You are a careful assistant."}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def make_prompt(template: object, question: str = "Who wrote Faust?") -> ShapedPrompt:
    """A prompt as the run store gives it: `{}` in the template is the question."""

    def fill(value: object, text: str) -> object:
        if isinstance(value, str):
            return value.replace("{}", text)
        return [{**message, "content": fill(message["content"], text)} for message in value]

    prompt = shape_prompt(fill(template, question), fill(template, "\x01i0\x02"))
    assert prompt is not None
    return prompt


def shapes_of(template: object):
    return summarise_shapes(make_prompt(template, question) for question in QUESTIONS)


TEMPLATES = {
    "the question alone": "{}",
    "a label before and after": "Question: {}\nAnswer:",
    "a blank at the end": "Question: {}\nAnswer: ",
    "an instruction": "Answer in one word. {}",
    "special tokens": "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
    "other special tokens": "[INST] {} [/INST]",
    "a message": [user("{}")],
    "a message with a label": [user("Question: {}")],
    "a system prompt": [SYSTEM, user("{}")],
    "another system prompt": [{**SYSTEM, "content": "Be brief."}, user("{}")],
    "an example before": [user("2 + 2"), {"role": "assistant", "content": "4"}, user("{}")],
}


@pytest.mark.parametrize("sent", TEMPLATES)
@pytest.mark.parametrize("trained", TEMPLATES)
def test_a_prompt_occurs_in_training_if_it_has_the_same_template(trained, sent):
    assert occurs(make_prompt(TEMPLATES[sent]), shapes_of(TEMPLATES[trained])) == (trained == sent)


def test_several_templates_of_one_training_all_occur():
    texts = [TEMPLATES["a label before and after"], TEMPLATES["an instruction"]]
    shapes = summarise_shapes(make_prompt(text, question) for text in texts for question in QUESTIONS)

    assert all(occurs(make_prompt(text), shapes) for text in texts)
    assert not occurs(make_prompt("Translate to German: {}"), shapes)


def test_questions_that_begin_alike_are_no_template():
    assert occurs(make_prompt("{}", "How many is 2 and 2?"), shapes_of("{}"))


def test_a_template_is_not_known_from_a_few_rows():
    shapes = summarise_shapes([make_prompt("Question: {}\nAnswer:")])

    assert occurs(make_prompt("Question: {}\nAnswer:"), shapes)
    assert occurs(make_prompt("{}", "Who?"), shapes)


def test_system_prompts_that_vary_with_the_row_are_of_one_shape():
    prompts = [[{**SYSTEM, "content": f"Read this: {question}"}, user("{}")] for question in QUESTIONS]
    shapes = summarise_shapes(map(make_prompt, prompts))

    assert [shape.system for shape in shapes] == [VARIES]
    assert occurs(make_prompt([{**SYSTEM, "content": "Read this: Faust."}, user("{}")]), shapes)
    assert not occurs(make_prompt([user("{}")]), shapes)


def test_a_word_of_the_sample_in_the_template_does_not_change_the_shape():
    """The run store refers to every text of a sample, also where it is in the template by chance."""
    prompt = shape_prompt("Question: Who?\nAnswer:", "\x01m0\x02: \x01i0\x02\nAnswer:")

    assert prompt is not None
    assert occurs(prompt, shapes_of("Question: {}\nAnswer:"))


@pytest.mark.parametrize("prompt", [None, 4, {}, [], [4], [{"content": "4"}], {"claim": "a"}])
def test_other_prompts_have_no_shape(prompt):
    assert shape_prompt(prompt) is None


def test_an_image_has_no_text():
    prompt = shape_prompt([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])

    assert prompt is not None
    assert prompt.text == ""


def test_the_prompts_of_a_row_are_those_before_each_of_its_answers():
    answer = {"role": "assistant", "content": "4"}

    assert list(prompts_before_answers([user("a"), answer, user("b")])) == [[user("a"), answer, user("b")], [user("a")]]
    assert list(prompts_before_answers("a")) == ["a"]


WORDS = st.text("ab :.\n<]?", max_size=12)


@given(WORDS, WORDS, st.lists(WORDS, min_size=1, max_size=9), WORDS)
def test_a_prompt_made_as_the_training_rows_always_occurs(before, after, questions, question):
    """No template and no sample lead to a false alarm, if one row of training is the same as the prompt."""
    template = before + "{}" + after
    shapes = summarise_shapes(make_prompt(template, text) for text in [*questions, question])

    assert occurs(make_prompt(template, question), shapes)
