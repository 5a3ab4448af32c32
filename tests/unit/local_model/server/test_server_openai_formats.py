"""Tool calls in the text of a reply."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.local_model.server.openai_formats import split_calls

CALL = '<tool_call>{"name": "search", "arguments": {"a": 1}}</tool_call>'


def test_calls_are_split_from_the_text():
    spaced = '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>'
    text, calls = split_calls(f"Well. {CALL}{spaced} Done.", "call-7")

    assert text == "Well.  Done."
    assert [call["id"] for call in calls] == ["call-7-0", "call-7-1"]
    assert [call["function"] for call in calls] == [
        {"name": "search", "arguments": '{"a": 1}'},
        {"name": "stop", "arguments": "{}"},
    ]


@pytest.mark.parametrize("name", ["</tool_call>", "<tool_call>", 'a"b\\c\n', "söhne.v2", ""])
def test_names_and_arguments_may_hold_the_marks_of_a_call(name):
    content = {"name": name, "arguments": {"q": f"{CALL} {name}"}}
    text, (call,) = split_calls(f"<tool_call>{json.dumps(content)}</tool_call>", "c")

    assert (text, call["function"]["name"]) == (None, name)
    assert json.loads(call["function"]["arguments"]) == content["arguments"]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "<tool_call></tool_call>",
        "<tool_call>{bad}</tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": "a"}</tool_call>',
        '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "a", "arguments": "{}"}</tool_call>',
        '<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>',
        '<tool_call>{"name": "a", "arguments": {}}',
        '<tool_call>{"name": "a", "arguments": {}} and</tool_call>',
        f"<tool_call>{'[' * 5000}</tool_call>",
    ],
    ids=range(11),
)
def test_a_malformed_call_stays_text(reply):
    assert split_calls(reply, "c") == (reply, [])
