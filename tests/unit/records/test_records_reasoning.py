"""Reasoning in replies: every documented form is cut off, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import Reply
from pytest_crucible.records.reasoning import (
    _BEGUN_IN_PROMPT,
    _PARTS,
    answer_span,
    answer_text,
    fold_reasoning,
    reasoning_length,
    reasoning_text,
)
from pytest_crucible.records.reasoning_forms import FORMS, Form
from pytest_crucible.records.unknown_reasoning import may_have_marks, unknown_reasoning

FENCED = "Write it so:\n```\nprompt += '</think>'\n```\nand send it."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>3, no: 4</think>4", "4"),
        ("\n  <think>\n3, no: 4\n</think>\n\n4\n", "4\n"),
        ("<think></think>4", "4"),
        ("<think>a</think>\n<think>b</think>\n4", "4"),
        # The template of the chat has opened the block.
        ("3, no: 4\n</think>\n\n4", "4"),
        # Cut before an answer.
        ("<think>3, no", ""),
        ("<think>3</think>", ""),
        # Tags that the answer is about.
        ("4", "4"),
        ("", ""),
        ("It begins with <think> and ends with </think>.", "It begins with <think> and ends with </think>."),
        ("```xml\n<think>3</think>\n```\n4", "```xml\n<think>3</think>\n```\n4"),
        ("Close it with `</think>`.", "Close it with `</think>`."),
        (FENCED, FENCED),
        ("Answer: 4\n<think>was that right?</think>", "Answer: 4\n<think>was that right?</think>"),
        ("I think> 4", "I think> 4"),
    ],
)
def test_only_what_a_reply_begins_with_is_reasoning(text, answer):
    assert answer_text(text) == answer
    assert Reply(text=text).answer == answer


def test_a_code_block_inside_the_reasoning_does_not_hide_its_end():
    assert answer_text("<think>```python\nx</think>4") == "4"


@given(st.lists(st.sampled_from(["<think>", "</think>", " ", "\n", "a", "`", "```"]), max_size=12).map("".join))
def test_reasoning_and_answer_are_the_whole_text(text):
    length = reasoning_length(text)

    assert 0 <= length <= len(text)
    assert answer_text(text) in text
    assert answer_text(text) == (text[length:].lstrip() if length else text)


def test_the_reasoning_has_no_tags():
    text = "<think>\nfirst\n</think>\n<think>second</think>4"

    assert reasoning_text(text, reasoning_length(text)) == "first\n\nsecond"


def test_a_report_gives_its_length():
    assert fold_reasoning("<think>2 + 2</think>4") == "(reasoning: 5 characters)\n4"
    assert fold_reasoning("4") == "4"


# -- all forms ------------------------------------------------------------------------------------------------------

EACH_FORM = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.opening)


def in_form(form: Form, reasoning: str, answer: str) -> str:
    """A reply as models of the form write it."""
    if form.opening == "<|channel|>":
        return f"<|channel|>analysis<|message|>{reasoning}<|end|><|start|>assistant{form.closing}{answer}<|return|>"
    before = f"{form.lead}{form.opening}{reasoning}{form.closing}"
    return f"{before}{form.lead if form.answer else ''}{form.answer}{answer}{''.join(form.ends)}"


@EACH_FORM
def test_the_answer_is_what_follows_the_reasoning(form):
    text = in_form(form, "\nIt is 3, no: 4\n", "\n4")

    assert answer_text(text) == "4"
    assert reasoning_text(text, reasoning_length(text)) == "It is 3, no: 4"
    assert unknown_reasoning(text) == ""


@EACH_FORM
def test_a_reply_that_was_cut_is_all_reasoning_unless_its_marks_are_plain_words(form):
    text = in_form(form, "It is 3, no", "4").partition(form.closing)[0]

    assert answer_text(text) == (text if form.needs_closing else "")


@EACH_FORM
def test_a_closing_mark_alone_ends_reasoning_where_a_prompt_may_open_it_and_is_shown_elsewhere(form):
    closing = f"<|start|>assistant{form.closing}" if form.opening == "<|channel|>" else form.closing
    text = f"It is 3, no: {closing}4"

    if form.may_begin_in_prompt:
        assert answer_text(text) == "4"
        assert reasoning_text(text, reasoning_length(text)) == "It is 3, no:"
    else:
        assert answer_text(text) == text


@EACH_FORM
@pytest.mark.parametrize(
    "template", ["Write `{}` and `{}`.", "So:\n```\n{}3{}4\n```\nand send it.", 'It writes "{}" before "{}".']
)
def test_marks_that_an_answer_is_about_are_part_of_it(form, template):
    text = template.format(form.opening, form.closing)

    assert answer_text(text) == text
    assert unknown_reasoning(text) == ""


@EACH_FORM
def test_each_form_names_its_models_and_its_source(form):
    assert form.models
    assert form.source.startswith("https://")


def test_the_quick_search_finds_each_form_that_a_prompt_may_open():
    for form in _BEGUN_IN_PROMPT:
        mark = form.opening if form.is_channels else form.closing
        assert "<" in mark
        assert any(part in mark for part in _PARTS)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a<think>b</think>c</think>4", "4"),
        ("<thinking>a<thinking>b</thinking>c</thinking>\n4", "4"),
        # An opening mark that the reasoning mentions has no partner.
        ("<think>\n<think>\n3, no: 4</think>4", "4"),
        ("<think>`<think>` is a tag</think>Close it with </think>.", "Close it with </think>."),
        # Blocks of several forms.
        ("<think>a</think>\n<thinking>b</thinking>4", "4"),
    ],
)
def test_nested_pairs_end_at_the_outermost(text, answer):
    assert answer_text(text) == answer


HEADER = "<|start|>assistant<|channel|>"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            f"<|channel|>analysis<|message|>a<|end|>{HEADER}final<|message|>3<|end|>{HEADER}final<|message|>4<|return|>",
            "4",
        ),
        (f"<|channel|>analysis<|message|>a<|end|>{HEADER}commentary<|message|>b<|end|>{HEADER}final<|message|>4", "4"),
        (
            f'<|channel|>analysis<|message|>a<|end|>{HEADER}final <|constrain|>json<|message|>{{"a": 4}}<|return|>',
            '{"a": 4}',
        ),
        (f"a<|end|>{HEADER}final<|message|>4<|return|>", "4"),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>4", "4"),
        (f"{HEADER}final<|message|>4<|return|>", "4"),
        ("<|channel|>commentary to=functions.add <|constrain|>json<|message|>{}<|call|>", ""),
        (f"{HEADER}final<|message|>It ends with <|end|>, always.<|return|>", "It ends with <|end|>, always."),
        (
            f"{HEADER}final<|message|>Write `<|channel|>final<|message|>`.<|return|>",
            "Write `<|channel|>final<|message|>`.",
        ),
        (f"Write {HEADER}final<|message|> in code:\n```\n{HEADER}final<|message|>4\n```\n", None),
    ],
)
def test_the_answer_on_channels_is_the_last_final_message(text, answer):
    assert answer_text(text) == (text if answer is None else answer)


MARKS = sorted({mark for form in FORMS for mark in (form.opening, form.closing, form.answer, form.lead, *form.ends)})


@given(st.lists(st.sampled_from([*MARKS, " ", "\n", "a", "`", "```"]), max_size=12).map("".join))
def test_a_text_that_may_have_no_marks_has_none(text):
    if not may_have_marks(text):
        assert (answer_span(text), unknown_reasoning(text)) == ((0, len(text)), "")


@pytest.mark.parametrize("mark", [mark for mark in MARKS if mark])
def test_each_mark_at_the_beginning_may_be_one(mark):
    assert may_have_marks(f" {mark}") or (
        not unknown_reasoning(f" {mark}") and answer_span(f" {mark}") == (0, len(mark) + 1)
    )


@given(st.lists(st.sampled_from([*MARKS, " ", "\n", "a", "`", "```"]), max_size=12).map("".join))
def test_every_text_is_reasoning_answer_and_marks(text):
    start, end = answer_span(text)

    assert 0 <= start <= end <= len(text)
    assert answer_text(text) in text
    assert reasoning_text(text, start) == reasoning_text(text[:start], start)
    assert fold_reasoning(text).endswith(answer_text(text))


# -- unknown forms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("It is 3, no</xyz_think>4", "</xyz_think>"),
        ("<xyz_think>It is 3</xyz_think>4", "<xyz_think>"),
        ("<ifm|think*>It is 3</ifm|think*>4", "<ifm|think*>"),
        ("It is 3[/THINK]4", "[/THINK]"),
        ("It is 3◁/think▷4", "◁/think▷"),
        ("<think>a</think>b</think>4", "</think>"),
        ("<think>a</think>4<|channel|>5", "<|channel|>"),
        ("4<channel|>", "<channel|>"),
        ("<|im_start|>assistant\n4", "<|im_start|>"),
        ("<｜Assistant｜>4", "<｜Assistant｜>"),
        ("<|begin_reasoning|>a", "<|begin_reasoning|>"),
        ("It is 3.<|end_reasoning|>4", "<|end_reasoning|>"),
        ("analysisWe add 2 and 2", "analysis"),
        ("We add.assistantfinal4", "assistantfinal"),
        ("Here is my thought process: 2 and 2", "Here is my thought process:"),
        # Honest texts.
        ("", ""),
        ("4", ""),
        ("analysis of variance", ""),
        ("<b>4</b></div>", ""),
        ("<answer>4</answer>", ""),
        ("<analysis>It is 4.</analysis><score>1</score>", ""),
        ("<result><thought>a</thought></result>", ""),
        ('<|python_tag|>{"name": "add"}', ""),
        ("<|tool_call|>add", ""),
        ("Close it with `</xyz_think>`, and with (</xyz_think>).", ""),
        ("x = Vec<Thought> and a <| b |> c", ""),
        ("if a <b and c> d: print('</thinking>')", ""),
        ("```html\n</xyz_think>\n```", ""),
        ("~~~\n<|channel|>\n~~~", ""),
    ],
)
def test_marks_of_unknown_forms_are_seen(text, mark):
    assert unknown_reasoning(text) == mark
