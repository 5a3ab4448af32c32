"""Streams: put together they are the answer that would have come in one piece."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_server.answers import pieces, whole
from openai_server.behaviour import Behaviour

from pytest_crucible.backends.openai.responses import parse_reply
from pytest_crucible.backends.openai.streams import Stream
from pytest_crucible.records.errors import Retryable

CHAT = {"model": "m", "messages": [{"role": "user", "content": "one  two ünö\n"}], "logprobs": True, "n": 2}
PLAIN = {"model": "m", "prompt": "one two", "logprobs": 1}
TOOLS = {**CHAT, "tools": [{"type": "function", "function": {"name": "add"}}]}


def events(body, **behaviour) -> bytes:
    request_body = {**body, "stream_options": {"include_usage": True}}
    events = [json.dumps(piece, ensure_ascii=False) for piece in pieces(Behaviour(**behaviour), request_body)]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()


def read(content: bytes, *cuts: int) -> Stream:
    stream = Stream(10**6)
    places = [0, *sorted(cut for cut in cuts if cut < len(content)), len(content)]
    for start, end in itertools.pairwise(places):
        stream.feed(content[start:end])
    return stream


def reply(answer):
    return parse_reply(answer, seconds=1.0, first_token_s=None, where="http://a")


@pytest.mark.parametrize(
    ("body", "finish"),
    [(CHAT, ""), (PLAIN, ""), ({**CHAT, "max_tokens": 1}, ""), (TOOLS, "tool_calls"), (CHAT, "content_filter")],
    ids=["chat", "completion", "cut", "tools", "filtered"],
)
@given(cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_stream_is_parsed_however_it_is_split(body, finish, cuts):
    behaviour = Behaviour(finish=finish, text="" if finish == "tool_calls" else None)
    streamed = read(events(body, finish=finish, text=behaviour.text), *cuts).answer("http://a")

    assert reply(streamed) == reply(whole(behaviour, body))


def test_first_token_time_is_recorded():
    role = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
    before, after = (
        read(b": hello\n\n" + role),
        read(role + b'data: {"choices": [{"delta": {"content": "2"}}]}\r\n\r\n'),
    )

    assert before.first_token_at is None
    assert after.first_token_at is not None


@pytest.mark.parametrize(
    "event",
    [
        b"data: {",
        b"data: []",
        b"data: 1",
        b'data: {"choices": [1]}',
        b'data: {"choices": [{"delta": {"content": 1}}]}',
        b'data: {"choices": [{"delta": {"tool_calls": [{"index": -1}]}}]}',
        b'data: {"choices": [{"delta": {"tool_calls": [{"index": 1000000000}]}}]}',
        b"data: " + b"[" * 100_000,
    ],
)
def test_invalid_event_is_garbage(event):
    with pytest.raises(Retryable) as caught:
        read(event + b"\n\n").answer("http://a")

    assert caught.value.kind == "garbage"


@pytest.mark.parametrize("whole_events", [0, 1, 2])
def test_truncated_stream_is_retryable(whole_events):
    content = b"".join(event + b"\n\n" for event in events(PLAIN).split(b"\n\n")[:whole_events])
    with pytest.raises(Retryable) as caught:
        read(content).answer("http://a")

    assert caught.value.kind == "half"


def test_stream_without_done_is_complete_when_choices_ended():
    content = events(CHAT).replace(b"data: [DONE]\n\n", b"")

    assert reply(read(content).answer("http://a")).text == "one  two ünö\n"


def test_error_event_is_returned():
    assert read(b'data: {"error": {"message": "gone"}}\n\n').answer("http://a")["error"] == {"message": "gone"}


def test_tool_call_arguments_are_joined():
    def delta(**call):
        return b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}).encode() + b"\n\n"

    content = (
        delta(index=0, id="c1", function={"name": "add", "arguments": ""})
        + delta(index=0, function={"arguments": '{"a":'})
        + delta(index=0, function={"arguments": " 1}"})
        + delta(index=1, id="c2", function={"name": "sub", "arguments": "{}"})
        + b'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\n\ndata: [DONE]\n\n'
    )
    calls = reply(read(content).answer("http://a")).tool_calls

    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls] == [
        ("c1", "add", '{"a": 1}'),
        ("c2", "sub", "{}"),
    ]
