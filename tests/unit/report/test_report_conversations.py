"""Conversations as turns: each call shows what the one before has not sent, with the tools that were called."""

from __future__ import annotations

from typing import Any

from pytest_crucible.records import Conversation, StoredCall, Unit
from pytest_crucible.report.conversations import conversation_turns

QUESTION = {"role": "user", "content": "What is 1 + 1?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"terms": [1, 1]}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "2"}


def turns(*calls: tuple[list[dict[str, Any]], str]) -> list[list[tuple[str, Any]]]:
    """Return the blocks of each call, from its messages and the text of its reply."""
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
        StoredCall(call=number, messages=messages, text=text, **facts)
        for number, (messages, text) in enumerate(calls, start=1)
    )
    conversation = Conversation(
        unit=Unit(0, 0, 0, 0), arm="v2", state="answered", detail="", reply="", calls=stored, scores={}
    )
    return [[(block.name, block.value) for block in turn.blocks] for turn in conversation_turns(conversation, "")]


def test_a_tool_is_shown_by_its_name_and_arguments_and_the_conversation_once():
    first, second = turns(([QUESTION], ""), ([QUESTION, ASKED, RESULT], "It is 2."))

    assert first == [("user", "What is 1 + 1?"), ("assistant", "")]
    assert second == [("tool call", 'add({"terms": [1, 1]})'), ("tool", "2"), ("assistant", "It is 2.")]


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
