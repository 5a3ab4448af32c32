"""OpenAI's /responses: how a request is read, and how replies and streams are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversations import conversations
from hypothesis import given
from hypothesis import strategies as st
from sse_events import Event, read_events

from pytest_crucible.features.agents.dialects import RESPONSES, ClientRequest
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.records import Reply

CALL = {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bern"}'}}
USER = {"role": "user", "content": "Hello"}


def read(**body: Any) -> ClientRequest:
    return RESPONSES.read({"model": "m", "input": "Hello", **body})


def stream(request: ClientRequest, reply: Reply, *pieces: str) -> list[Event]:
    writer = RESPONSES.stream(request, "ab12", 7)
    return read_events(b"".join((writer.begin(), *map(writer.piece, pieces), writer.end(reply))))


def test_a_text_and_instructions_are_two_messages():
    request = read(instructions="Be brief.", stream=True)

    assert request.messages == [{"role": "system", "content": "Be brief."}, USER]
    assert (request.model, request.stream) == ("m", True)


def test_items_of_one_turn_are_one_message():
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "so"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": "Really."},
    ]
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]

    assert read(input=items).messages == [
        USER,
        {"role": "assistant", "content": "Let me see.", "reasoning_content": "so", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": "Really."},
    ]


def test_images_and_files_have_the_form_of_chats():
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
    ]

    assert read(input=[{"role": "user", "content": content}]).messages[0]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
    ]


def test_parameters_have_the_form_of_chats():
    schema = {"type": "object"}
    request = read(
        max_output_tokens=9,
        temperature=0.5,
        tools=[{"type": "function", "name": "f", "description": None, "parameters": schema, "strict": True}],
        tool_choice={"type": "function", "name": "f"},
        parallel_tool_calls=False,
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}, "verbosity": "low"},
        reasoning={"effort": "high", "summary": "auto"},
        include=["message.output_text.logprobs", "reasoning.encrypted_content"],
        top_logprobs=2,
        store=False,
        truncation="auto",
        metadata={},
        top_k=4,
    )

    assert request.parameters == {
        "max_tokens": 9,
        "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
        "verbosity": "low",
        "reasoning_effort": "high",
        "logprobs": True,
        "top_logprobs": 2,
        "top_k": 4,
    }


def test_a_plain_request_has_no_parameters():
    assert read(tools=[], include=[], text={"format": {"type": "text"}}, previous_response_id=None).parameters == {}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id is not supported here, because nothing is stored"),
        ({"conversation": "conv_1"}, "conversation is not supported here"),
        ({"background": True}, "background is not supported here"),
        (
            {"tools": [{"type": "computer"}]},
            "a tool has the type 'computer', which is not served here: use function, custom, namespace",
        ),
        ({"tools": [{"type": "function"}]}, "a tool: name must be a text, not None"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice has the type 'mcp'"),
        ({"input": [{"type": "item_reference", "id": "a"}]}, "an item of input has the type 'item_reference'"),
        (
            {"input": [{"type": "function_call", "name": "f", "arguments": {}}]},
            "function_call: arguments must be a text",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "a part of content has the type"),
        ({"input": []}, "input must be a text or a list of messages"),
        ({"input": [3]}, "input must be a list of objects"),
        ({"text": "json"}, "text must be an object, not 'json'"),
        ({"model": None}, "model must be a text, not None"),
    ],
)
def test_a_bad_request_is_refused_with_a_sentence(body, sentence):
    with pytest.raises(Refusal, match=f"^{sentence}"):
        read(**body)


PATCH = {
    "type": "custom",
    "name": "patch",
    "description": "Edits.",
    "format": {"type": "grammar", "definition": "start: X"},
}
CLOSE = {"type": "function", "name": "close", "parameters": {"type": "object", "properties": {}}}
OWN_TOOLS = [
    PATCH,
    {"type": "namespace", "name": "team", "description": "", "tools": [CLOSE, {**PATCH, "format": None}]},
]


def test_tools_with_a_text_and_those_of_a_namespace_are_functions_for_the_arm():
    tools = [tool["function"] for tool in read(tools=OWN_TOOLS).parameters["tools"]]
    text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}

    assert tools == [
        {"name": "patch", "description": "Edits.\n\nThe grammar of `input`:\nstart: X", "parameters": text},
        {"name": "team__close", "parameters": CLOSE["parameters"]},
        {"name": "team__patch", "description": "Edits.", "parameters": text},
    ]


def calls_of(*calls: tuple[str, str]) -> Reply:
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return Reply(
        text="", tool_calls=tuple({"id": "c", "type": "function", "function": function} for function in functions)
    )


def test_their_calls_are_items_of_their_own_and_come_back_as_they_were():
    request = read(tools=OWN_TOOLS)
    reply = calls_of(
        ("patch", '{"input": "+a"}'), ("team__close", "{}"), ("team__patch", "not JSON"), ("patch", '{"other": 1}')
    )
    items = RESPONSES.answer(request, reply, "ab12", 7)["output"]
    results = [{"type": "custom_tool_call_output", "call_id": "c", "output": "done"}]
    again = read(tools=OWN_TOOLS, input=[*items[:3], *results]).messages

    assert [(item["type"], item["name"], item.get("namespace")) for item in items] == [
        ("custom_tool_call", "patch", None),
        ("function_call", "close", "team"),
        ("custom_tool_call", "patch", "team"),
        ("custom_tool_call", "patch", None),
    ]
    assert [item.get("input", item.get("arguments")) for item in items] == ["+a", "{}", "not JSON", '{"other": 1}']
    assert [call["function"] for call in again[0]["tool_calls"]] == [
        {"name": "patch", "arguments": '{"input": "+a"}'},
        {"name": "team__close", "arguments": "{}"},
        {"name": "team__patch", "arguments": '{"input": "not JSON"}'},
    ]
    assert again[1] == {"role": "tool", "tool_call_id": "c", "content": "done"}


def test_the_text_of_a_tool_is_streamed_as_its_input():
    events = stream(read(tools=OWN_TOOLS), calls_of(("patch", '{"input": "+a"}')))
    by_type = {event.data["type"]: event.data for event in events}

    assert by_type["response.output_item.added"]["item"]["input"] == ""
    assert by_type["response.custom_tool_call_input.delta"]["delta"] == "+a"
    assert by_type["response.custom_tool_call_input.done"]["input"] == "+a"
    assert by_type["response.output_item.done"]["item"]["input"] == "+a"


def test_items_of_the_input_may_add_tools_and_change_the_effort():
    items = [
        {"type": "additional_tools", "role": "developer", "tools": OWN_TOOLS},
        {"role": "user", "content": "Hello"},
    ]
    change = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    request = read(input=[*items, change], reasoning={"effort": "high"})

    assert request.messages == [USER]
    assert request.parameters == {**read(tools=OWN_TOOLS).parameters, "reasoning_effort": "low"}
    assert RESPONSES.answer(request, calls_of(("team__close", "{}")), "a", 7)["output"][0]["namespace"] == "team"


def test_a_tool_of_the_providers_servers_is_not_offered_to_the_arm():
    request = read(tools=[{"type": "web_search", "external_web_access": True}, CLOSE])

    assert request.left_out == ("web_search",)
    assert [tool["function"]["name"] for tool in request.parameters["tools"]] == ["close"]
    assert read(tools=[{"type": "web_search_preview_2025_03_11"}]).parameters == {}


def test_what_the_provider_keeps_about_a_client_does_not_reach_the_arm():
    assert read(client_metadata={"turn": "1"}, context_management=[{"type": "compaction"}]).parameters == {}


def test_an_answer_has_a_message_and_usage():
    answer = RESPONSES.answer(read(), Reply(text="Hi", input_tokens=3, output_tokens=1), "ab12", 7)

    assert (answer["id"], answer["object"], answer["status"], answer["model"]) == (
        "resp_ab12",
        "response",
        "completed",
        "m",
    )
    assert answer["output"] == [
        {
            "type": "message",
            "id": "msg_ab12",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        }
    ]
    assert {name: answer["usage"][name] for name in ("input_tokens", "output_tokens", "total_tokens")} == {
        "input_tokens": 3,
        "output_tokens": 1,
        "total_tokens": 4,
    }


def test_a_reply_that_only_calls_has_no_message_item():
    answer = RESPONSES.answer(read(), Reply(text="", tool_calls=(CALL,)), "ab12", 7)

    assert answer["output"] == [
        {
            "type": "function_call",
            "id": "fc_ab12_0",
            "call_id": "call_a",
            "name": "weather",
            "arguments": '{"city":"Bern"}',
            "status": "completed",
        }
    ]


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_a_cut_reply_is_incomplete(finish, reason):
    answer = RESPONSES.answer(read(), Reply(text="Hi", finish=finish), "ab12", 7)

    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert stream(read(), Reply(text="Hi", finish=finish))[-1].name == "response.incomplete"


def test_tools_and_choice_are_written_back_in_this_format():
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    choice = {"type": "function", "name": "f"}
    answer = RESPONSES.answer(read(tools=[tool], tool_choice=choice), Reply(text="Hi"), "ab12", 7)

    assert (answer["tools"], answer["tool_choice"]) == ([tool], choice)


def test_logprobs_come_where_they_are_included():
    request = read(include=["message.output_text.logprobs"])
    content = RESPONSES.answer(request, Reply(text="a", logprobs=(-0.5,)), "ab12", 7)["output"][0]["content"][0]

    assert [token["logprob"] for token in content["logprobs"]] == [-0.5]


def test_the_events_of_a_streamed_text_and_a_call_have_their_order():
    reply = Reply(text="Hi you", tool_calls=(CALL,))
    events = stream(read(), reply, "Hi ")

    assert [event.name for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    assert all(event.data["type"] == event.name for event in events)
    assert events[0].data["response"]["usage"] is None
    assert events[-1].data["response"]["usage"]["total_tokens"] == 0


texts = st.text(max_size=12)


@pytest.mark.hypothesis
@given(
    st.builds(
        Reply, text=texts, reasoning=texts, tool_calls=st.sampled_from([(), (CALL,), (CALL, {**CALL, "id": "b"})])
    ),
    st.integers(0, 12),
)
def test_deltas_and_finished_items_are_the_whole_response(reply, cut):
    events = stream(read(), reply, reply.text[:cut])
    response = events[-1].data["response"]
    finished = [event.data["item"] for event in events if event.name == "response.output_item.done"]
    deltas = "".join(event.data["delta"] for event in events if event.name == "response.output_text.delta")

    assert response["output"] == finished
    assert deltas == reply.text
    assert sorted(map(json.dumps, finished)) == sorted(
        map(json.dumps, RESPONSES.answer(read(), reply, "ab12", 7)["output"])
    )


@pytest.mark.hypothesis
@given(conversations())
def test_a_conversation_that_a_client_sends_back_is_the_one_that_it_had(turns):
    """Each reply is answered, and its items come back with what the tools returned."""
    items: list[dict[str, Any]] = []
    for turn in turns:
        items.append({"role": "user", "content": turn.question})
        answer = RESPONSES.answer(read(input=[*items]), turn.reply, "ab12", 7)
        items += answer["output"]
        items += [
            {"type": "function_call_output", "call_id": call["id"], "output": f"result {call['id']}"}
            for call in turn.reply.tool_calls
        ]

    assert read(input=items).messages == [message for turn in turns for message in turn.messages()]


def test_a_reply_that_differs_from_its_pieces_ends_with_an_error():
    event = stream(read(), Reply(text="Hi"), "Ho")[-1]

    assert (event.name, event.data["message"]) == ("error", event.data["error"]["message"])
    assert event.data["message"].startswith("the reply does not begin with the pieces")
