"""Conversations as turns: each call shows what the one before has not sent, with the tools that were called."""

from __future__ import annotations

from typing import Any

from pytest_crucible.records import Conversation, StoredCall, Unit
from pytest_crucible.report.conversations import conversation_turns

QUESTION = {"role": "user", "content": "What is 1 + 1?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"terms": [1, 1]}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "2"}


def turns(*calls: tuple[Any, ...]) -> list[list[tuple[str, Any]]]:
    """Return the blocks of each call, from its messages, the text of its reply and, if known, the tools that it calls."""
    facts: dict[str, Any] = {
        "request": 1,
        "member": "",
        "parameters": None,
        "reasoning": "",
        "think": 0,
        "error": "",
        "paid_by": None,
    }
    stored = tuple(
        StoredCall(call=number, messages=messages, text=text, tool_calls=tuple(*tools), **facts)
        for number, (messages, text, *tools) in enumerate(calls, start=1)
    )
    conversation = Conversation(
        unit=Unit(0, 0, 0, 0), arm="v2", state="answered", detail="", reply="", calls=stored, scores={}
    )
    return [[(block.name, block.value) for block in turn.blocks] for turn in conversation_turns(conversation, "")]


def test_a_tool_is_shown_by_its_name_and_arguments_and_the_conversation_once():
    first, second = turns(([QUESTION], ""), ([QUESTION, ASKED, RESULT], "It is 2."))

    assert first == [("user", "What is 1 + 1?"), ("assistant", "")]
    assert second == [("tool call", 'add({"terms": [1, 1]})'), ("tool add", "2"), ("assistant", "It is 2.")]


def test_the_tools_of_a_reply_are_shown_with_it_and_once():
    first, second = turns(([QUESTION], "", [CALL]), ([QUESTION, ASKED, RESULT], "It is 2.", []))

    assert first == [("user", "What is 1 + 1?"), ("tool call", 'add({"terms": [1, 1]})')]
    assert second == [("tool add", "2"), ("assistant", "It is 2.")]


def test_the_tools_of_the_last_reply_are_shown():
    [only] = turns(([QUESTION], "Let me add.", [CALL]))

    assert only[1:] == [("assistant", "Let me add."), ("tool call", 'add({"terms": [1, 1]})')]


def test_arguments_that_a_client_has_written_again_are_shown_once():
    again = {**CALL, "function": {"name": "add", "arguments": '{"terms":[1,1]}'}}

    _, second = turns(([QUESTION], "", [CALL]), ([QUESTION, {**ASKED, "tool_calls": [again]}, RESULT], "2", []))

    assert second[0] == ("tool add", "2")


def test_other_tools_than_those_of_the_reply_are_shown():
    other = {**CALL, "function": {"name": "subtract", "arguments": "{}"}}

    _, second = turns(([QUESTION], "", [CALL]), ([QUESTION, {**ASKED, "tool_calls": [other]}, RESULT], "2", []))

    assert second[0] == ("tool call", "subtract({})")


def test_results_of_one_turn_have_the_names_of_the_calls_that_they_answer():
    later = {"id": "c2", "type": "function", "function": {"name": "round", "arguments": "{}"}}
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("c2", "c1", "c3")]

    _, second = turns(
        ([QUESTION], "", [CALL, later]), ([QUESTION, {**ASKED, "tool_calls": [CALL, later]}, *results], "")
    )

    assert second[:3] == [("tool round", "c2"), ("tool add", "c1"), ("tool", "c3")]


def test_an_id_that_a_client_gives_again_is_that_of_the_last_call():
    other = {**CALL, "function": {"name": "subtract", "arguments": "{}"}}
    sent = [QUESTION, ASKED, RESULT, {**ASKED, "tool_calls": [other]}, {**RESULT, "content": "0"}]

    [only] = turns((sent, "0"))

    assert [block for block in only if block[0].startswith("tool ")] == [
        ("tool call", 'add({"terms": [1, 1]})'),
        ("tool add", "2"),
        ("tool call", "subtract({})"),
        ("tool subtract", "0"),
    ]


def test_a_name_that_a_client_gives_itself_is_shown_once():
    [only] = turns(
        ([QUESTION, ASKED, {**RESULT, "name": "sum"}, {"role": "function", "name": "old", "content": "1"}], "2")
    )

    assert only[2:4] == [("tool sum", "2"), ("function old", "1")]


def test_tools_in_another_form_are_shown_as_they_are():
    assert turns(([QUESTION], "", [{"tool": "add"}]))[0][1:] == [("tool call", {"tool": "add"})]


def test_a_reply_that_is_sent_again_is_not_repeated():
    answered = {"role": "assistant", "content": "2"}
    again = {"role": "user", "content": "Sure?"}

    assert turns(([QUESTION], "2"), ([QUESTION, answered, again], "Yes."))[1] == [
        ("user", "Sure?"),
        ("assistant", "Yes."),
    ]


def test_another_reply_than_the_one_that_came_is_shown():
    edited = {"role": "assistant", "content": "3"}

    assert turns(([QUESTION], "2"), ([QUESTION, edited], "No."))[1] == [("assistant", "3"), ("assistant", "No.")]


def test_a_conversation_that_begins_again_with_another_question_is_shown_whole():
    other = {"role": "user", "content": "Another one?"}

    assert turns(([QUESTION], "2"), ([other], "Yes."))[1] == [("user", "Another one?"), ("assistant", "Yes.")]


def test_calls_of_a_role_have_their_own_prompts_and_stand_between_those_of_the_arm():
    facts: dict[str, Any] = {
        "request": 1,
        "parameters": None,
        "reasoning": "",
        "think": 0,
        "error": "",
        "paid_by": None,
    }
    plan = [{"role": "user", "content": "Plan!"}]
    sent = [
        ("role:planner", plan, "1. Add."),
        ("", [QUESTION], "Let me see."),
        (
            "role:planner",
            [*plan, {"role": "assistant", "content": "1. Add."}, {"role": "user", "content": "On!"}],
            "2.",
        ),
        ("", [QUESTION, {"role": "assistant", "content": "Let me see."}, {"role": "user", "content": "Well?"}], "2"),
    ]
    calls = tuple(
        StoredCall(call=number, member=member, messages=messages, text=text, **facts)
        for number, (member, messages, text) in enumerate(sent, start=1)
    )
    conversation = Conversation(
        unit=Unit(0, 0, 0, 0), arm="v2", state="answered", detail="", reply="2", calls=calls, scores={}
    )

    headed_blocks = [
        (turn.heading, [block.value for block in turn.blocks]) for turn in conversation_turns(conversation, "")
    ]

    assert headed_blocks == [
        ("call 1, role:planner", ["Plan!", "1. Add."]),
        ("call 2", ["What is 1 + 1?", "Let me see."]),
        ("call 3, role:planner", ["On!", "2."]),
        ("call 4", ["Well?", "2"]),
    ]
