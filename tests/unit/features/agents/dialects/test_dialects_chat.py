"""Chat completions: how a request is read, and how replies and streams are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sse_events import read_events

from pytest_crucible.backends.openai.responses import parse_reply
from pytest_crucible.backends.openai.streams import Stream
from pytest_crucible.features.agents.dialects import CHAT, ClientRequest
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.records import Reply

CALL = {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bern"}'}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
USER = {"role": "user", "content": "Hello"}


def read(**body: Any) -> ClientRequest:
    return CHAT.read({"model": "m", "messages": [USER], **body})


def stream(request: ClientRequest, reply: Reply, *pieces: str) -> bytes:
    writer = CHAT.stream(request, "ab12", 7)
    return b"".join((writer.begin(), *map(writer.piece, pieces), writer.end(reply)))


def assemble(events: bytes) -> Reply:
    """Return the reply that this package's own client reads from a stream."""
    reader = Stream(max_reply_bytes=10**6)
    reader.feed(events)
    return parse_reply(reader.answer("the stream"), seconds=0.0, first_token_s=None, where="the stream")


def test_the_conversation_is_read_as_it_is():
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
    ]
    request = CHAT.read({"model": "any", "messages": messages, "stream": True})

    assert request == ClientRequest(messages, {}, "any", stream=True)
    assert request.earlier_calls == 1


def test_parameters_are_passed_on_and_those_of_the_provider_are_not():
    request = read(
        temperature=0.5,
        max_completion_tokens=9,
        tools=[TOOL],
        top_k=3,
        store=True,
        metadata={"a": "b"},
        user="me",
        stream=False,
        stream_options={"include_usage": True},
        service_tier="auto",
        seed=None,
    )

    assert request.parameters == {"temperature": 0.5, "max_completion_tokens": 9, "tools": [TOOL], "top_k": 3}
    assert not request.stream


def test_an_empty_list_is_not_set():
    assert read(tools=[], stop=[]).parameters == {}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"messages": "Hello"}, "messages must be a list of objects, not 'Hello'"),
        ({"messages": None}, "messages must be a list of objects, not None"),
        ({"messages": ["Hello"]}, "messages must be a list of objects"),
        ({"messages": [{"content": "Hello"}]}, "messages has the role None; expected system, developer, user"),
        ({"model": 3}, "model must be a text, not 3"),
    ],
)
def test_a_bad_request_is_refused_with_a_sentence(body, sentence):
    with pytest.raises(Refusal, match=f"^{sentence}"):
        read(**body)


def test_an_answer_has_all_that_clients_read():
    answer = CHAT.answer(read(), Reply(text="Hi", input_tokens=3, output_tokens=1, system_fingerprint="f"), "ab12", 7)

    assert answer == {
        "id": "chatcmpl-ab12",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        "system_fingerprint": "f",
    }


def test_unknown_tokens_are_0():
    usage = CHAT.answer(read(), Reply(text="Hi"), "ab12", 7)["usage"]

    assert usage == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_a_call_keeps_its_id_and_one_without_is_named_by_its_place_in_the_conversation():
    calls = (CALL, {"function": {"name": "weather", "arguments": {"city": "Bern"}}})
    earlier = {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]}
    request = read(messages=[USER, earlier])
    choice = CHAT.answer(request, Reply(text="", tool_calls=calls, finish="stop"), "ab12", 7)["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [
        CALL,
        {"id": "call_3", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}},
    ]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("blocked", "stop"),
        ("abstained", "stop"),
        ("tool_calls", "stop"),
    ],
)
def test_a_reply_without_calls_has_a_finish_reason_of_the_format(finish, reason):
    answer = CHAT.answer(read(), Reply(text="Hi", finish=finish), "ab12", 7)

    assert answer["choices"][0]["finish_reason"] == reason


def test_choices_reasoning_and_logprobs_are_written():
    reply = Reply(text="a", reasoning="so", logprobs=(-0.5,), alternatives=(Reply(text="b", finish="length"),))
    first, second = CHAT.answer(read(n=2, logprobs=True), reply, "ab12", 7)["choices"]

    assert first["message"]["reasoning_content"] == "so"
    assert [token["logprob"] for token in first["logprobs"]["content"]] == [-0.5]
    assert (second["index"], second["message"]["content"], second["finish_reason"]) == (1, "b", "length")
    assert second["logprobs"] is None


def test_logprobs_come_only_where_the_client_wants_them():
    assert CHAT.answer(read(), Reply(text="a", logprobs=(-0.5,)), "ab12", 7)["choices"][0]["logprobs"] is None


texts = st.text(max_size=20)
replies = st.builds(
    Reply,
    text=texts,
    reasoning=texts,
    finish=st.sampled_from(["stop", "length", "content_filter"]),
    tool_calls=st.lists(
        st.builds(
            lambda call_id, name, arguments: {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            },
            st.text("abc_1", min_size=1),
            st.text(min_size=1),
            st.dictionaries(texts, texts, max_size=2),
        ),
        max_size=3,
    ).map(tuple),
    input_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
)


@pytest.mark.hypothesis
@given(replies, st.integers(0, 20), st.integers(0, 20))
def test_answer_and_stream_say_the_same_and_our_own_client_reads_the_reply_back(reply, first, second):
    pieces = (reply.text[:first], reply.text[first : first + second])
    request = read()
    answer = parse_reply(CHAT.answer(request, reply, "ab12", 7), seconds=0.0, first_token_s=None, where="")

    assert assemble(stream(request, reply, *pieces)) == answer
    for name in ("text", "reasoning", "tool_calls", "input_tokens", "output_tokens"):
        assert getattr(answer, name) == getattr(reply, name)


def test_a_stream_begins_with_the_role_and_ends_with_unasked_usage():
    events = read_events(stream(read(), Reply(text="Hi you", input_tokens=3, output_tokens=2), "Hi "))

    assert [
        event.data if event.data == "[DONE]" else event.data["choices"] and event.data["choices"][0]["delta"]
        for event in events
    ] == [
        {"role": "assistant", "content": ""},
        {"content": "Hi "},
        {"content": "you"},
        {},
        [],
        "[DONE]",
    ]
    assert {event.data["id"] for event in events[:-1]} == {"chatcmpl-ab12"}
    assert events[-2].data["usage"]["total_tokens"] == 5


def test_further_choices_of_a_stream_come_at_its_end():
    reply = Reply(text="a", alternatives=(Reply(text="b"),))
    reader = Stream(max_reply_bytes=10**6)
    reader.feed(stream(read(n=2), reply, "a"))

    assert [choice["message"]["content"] for choice in reader.answer("")["choices"]] == ["a", "b"]


def test_a_reply_that_differs_from_its_pieces_ends_with_an_error():
    events = read_events(stream(read(), Reply(text="Hi"), "Ho"))

    assert events[-1].data["error"]["message"].startswith("the reply does not begin with the pieces")


def test_a_stream_can_end_with_an_error():
    assert read_events(CHAT.stream(read(), "ab12", 7).fail("lost"))[0].data["error"]["message"] == "lost"


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (404, "invalid_request_error"), (503, "server_error")]
)
def test_an_error_has_a_type_by_its_status_and_a_code(status, kind):
    assert CHAT.error("no", status, "c")["error"] == {"message": "no", "type": kind, "param": None, "code": "c"}
