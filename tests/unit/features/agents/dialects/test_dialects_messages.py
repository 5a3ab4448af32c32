"""Anthropic's Messages: how a request is read, and how replies and streams are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversations import conversations
from hypothesis import given
from hypothesis import strategies as st
from sse_events import Event, read_events

from pytest_crucible.features.agents.dialects import MESSAGES, ClientRequest
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.records import Reply

CALL = {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
USED = {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Bern"}}
USER = {"role": "user", "content": "Hello"}
THINKING = {"type": "adaptive"}


def read(**body: Any) -> ClientRequest:
    return MESSAGES.read({"model": "m", "max_tokens": 9, "messages": [USER], **body})


def stream(request: ClientRequest, reply: Reply, *pieces: str) -> list[Event]:
    writer = MESSAGES.stream(request, "ab12", 7)
    return read_events(b"".join((writer.begin(), *map(writer.piece, pieces), writer.end(reply))))


def assemble(events: list[Event]) -> dict[str, Any]:
    """Return the message that the events describe, as a client puts it together."""
    message: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for event in events:
        data = event.data
        assert data["type"] == event.name
        if event.name == "message_start":
            message = data["message"]
        elif event.name == "content_block_start":
            assert data["index"] == len(message["content"])
            message["content"].append(data["content_block"])
        elif event.name == "content_block_delta" and data["delta"]["type"] == "input_json_delta":
            inputs[data["index"]] = inputs.get(data["index"], "") + data["delta"]["partial_json"]
        elif event.name == "content_block_delta":
            field = data["delta"]["type"].removesuffix("_delta")
            message["content"][data["index"]][field] += data["delta"][field]
        elif event.name == "message_delta":
            message.update(data["delta"])
            message["usage"].update(data["usage"])
    for index, text in inputs.items():
        message["content"][index]["input"] = json.loads(text)
    return message


def test_system_results_and_images_are_read_into_a_chat():
    request = read(
        system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        messages=[
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "so", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "Let me see."},
                    USED,
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_a", "content": [{"type": "text", "text": "sunny"}]},
                    {"type": "text", "text": "And this?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                    {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "page"}},
                ],
            },
        ],
    )

    assert request.messages == [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "Let me see.", "reasoning_content": "so", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                {"type": "image_url", "image_url": {"url": "http://a/b.png"}},
                {"type": "text", "text": "page"},
            ],
        },
    ]


def test_parameters_have_the_form_of_chats():
    schema = {"type": "object"}
    request = read(
        tools=[{"name": "f", "description": "d", "input_schema": schema, "cache_control": {"type": "ephemeral"}}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        stop_sequences=["END"],
        temperature=0.5,
        top_k=4,
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": schema}},
        metadata={"user_id": "me"},
        service_tier="auto",
        betas=["a"],
        thinking={"type": "enabled", "budget_tokens": 1024},
        stream=True,
        thread=None,
    )

    assert request.parameters == {
        "max_tokens": 9,
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": ["END"],
        "temperature": 0.5,
        "top_k": 4,
        "response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": True}},
        "reasoning_effort": "low",
    }
    assert (request.stream, request.with_reasoning) == (True, True)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_the_choice_of_a_tool_has_the_form_of_chats(choice, expected):
    assert read(tool_choice=choice).parameters["tool_choice"] == expected


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"messages": "Hello"}, "messages must be a list of objects"),
        (
            {"messages": [{"role": "tool", "content": "a"}]},
            "messages has the role 'tool'; expected user, assistant or system",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "content has the type 'audio'"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "a tool has the type 'bash_20250124'"),
        ({"tool_choice": {"type": "some"}}, "tool_choice has the type 'some'"),
        ({"tool_choice": "auto"}, "tool_choice must be an object, not 'auto'"),
        ({"mcp_servers": [{"url": "http://a"}]}, "mcp_servers is run by the provider's own servers"),
        ({"output_config": {"format": {"type": "regex"}}}, "output_config.format has the type 'regex'"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "a"}}]}
                ]
            },
            "the source of image has the type 'file'",
        ),
    ],
)
def test_a_bad_request_is_refused_with_a_sentence(body, sentence):
    with pytest.raises(Refusal, match=f"^{sentence}"):
        read(**body)


def test_a_thread_is_refused_with_the_code_at_which_clients_send_the_whole_conversation():
    with pytest.raises(Refusal) as refusal:
        read(thread={"type": "create"})
    error = MESSAGES.error(refusal.value.sentence, refusal.value.status, refusal.value.code)

    assert refusal.value.status == 400
    assert error["type"] == "error"
    assert error["error"]["type"] == "invalid_request_error"
    assert error["error"]["details"] == {"error_code": "thread_unsupported_request"}


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication_error"), (503, "api_error"), (422, "invalid_request_error")]
)
def test_an_error_has_a_type_by_its_status(status, kind):
    assert MESSAGES.error("no", status, None) == {"type": "error", "error": {"type": kind, "message": "no"}}


def test_an_answer_has_blocks_a_reason_and_usage():
    reply = Reply(text="Let me see.", tool_calls=(CALL,), input_tokens=3, output_tokens=2)
    answer = MESSAGES.answer(read(), reply, "ab12", 7)

    assert (answer["id"], answer["type"], answer["role"], answer["model"]) == ("msg_ab12", "message", "assistant", "m")
    assert answer["content"] == [{"type": "text", "text": "Let me see."}, USED]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("tool_use", None)
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (3, 2)


def test_thinking_comes_only_where_the_client_has_switched_it_on():
    reply = Reply(text="Hi", reasoning="so")

    assert [block["type"] for block in MESSAGES.answer(read(), reply, "a", 7)["content"]] == ["text"]
    request = read(thinking=THINKING)
    assert [block["type"] for block in MESSAGES.answer(request, reply, "a", 7)["content"]] == ["thinking", "text"]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("blocked", "end_turn")],
)
def test_a_reason_of_the_format_is_written(finish, reason):
    assert MESSAGES.answer(read(), Reply(text="Hi", finish=finish), "a", 7)["stop_reason"] == reason


def test_malformed_arguments_reach_the_tool_and_come_back_as_they_were():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"city": '}}
    content = MESSAGES.answer(read(), Reply(text="", tool_calls=(call,)), "ab12", 7)["content"]
    again = read(messages=[USER, {"role": "assistant", "content": content}])

    assert content[0]["input"] == {"malformed_arguments": '{"city": '}
    assert again.messages[1]["tool_calls"] == [call]


def test_the_events_of_a_streamed_text_and_a_call_have_their_order():
    events = stream(read(), Reply(text="Hi you", tool_calls=(CALL,)), "Hi ")

    assert [event.name for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0].data["message"]["usage"]["output_tokens"] == 0
    assert events[-2].data["usage"] == {"input_tokens": 0, "output_tokens": 0}


texts = st.text(max_size=12)


@pytest.mark.hypothesis
@given(
    st.builds(
        Reply,
        text=texts,
        reasoning=texts,
        tool_calls=st.sampled_from([(), (CALL,), (CALL, {**CALL, "id": "b"})]),
        finish=st.sampled_from(["stop", "length", "content_filter"]),
        output_tokens=st.integers(0, 9),
    ),
    st.integers(0, 12),
)
def test_the_events_are_the_whole_message(reply, cut):
    request = read(thinking=THINKING)
    message = assemble(stream(request, reply, reply.text[:cut]))
    whole = MESSAGES.answer(request, reply, "ab12", 7)

    def order(block: dict[str, Any]) -> str:
        return json.dumps(block, sort_keys=True)

    assert sorted(message.pop("content"), key=order) == sorted(whole.pop("content"), key=order)
    assert message == whole


@pytest.mark.hypothesis
@given(conversations())
def test_a_conversation_that_a_client_sends_back_is_the_one_that_it_had(turns):
    """Each reply is answered, and its blocks come back with what the tools returned, in one message with the next question."""
    messages: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for turn in turns:
        messages.append({"role": "user", "content": [*results, {"type": "text", "text": turn.question}]})
        answer = MESSAGES.answer(read(messages=[*messages], thinking=THINKING), turn.reply, "ab12", 7)
        messages.append({"role": "assistant", "content": answer["content"]})
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": f"result {call['id']}"}
            for call in turn.reply.tool_calls
        ]
    messages += [{"role": "user", "content": results}] if results else []

    assert read(messages=messages).messages == [message for turn in turns for message in turn.messages()]


def test_a_reply_that_differs_from_its_pieces_ends_with_an_error():
    event = stream(read(), Reply(text="Hi"), "Ho")[-1]

    assert event.name == "error"
    assert event.data["error"]["message"].startswith("the reply does not begin with the pieces")
