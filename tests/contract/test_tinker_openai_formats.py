"""Tools, JSON schemas and embeddings on the endpoint in OpenAI's format."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import numpy as np
import pytest
from sse_events import read_events
from tinker_http import SHAPE, OpenAI

from pytest_crucible.local_model.server.process import LocalServer

SCHEMA = {
    "type": "object",
    "properties": {"claim": {"type": "string", "maxLength": 8}, "score": {"type": "integer"}},
    "required": ["score"],
}
TOOL = {"type": "function", "function": {"name": "search", "description": "Finds.", "parameters": SCHEMA}}
OTHER = {"type": "function", "function": {"name": "stop"}}
ASKED = [{"role": "user", "content": "claim 7"}]


@pytest.fixture
def openai(server) -> OpenAI:
    return OpenAI(server)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory) -> Iterator[OpenAI]:
    """The packaged model, whose context has room for tools."""
    with LocalServer.start(tmp_path_factory.mktemp("packaged")) as server:
        yield OpenAI(server)


def chat(openai: OpenAI, **body: object) -> dict:
    status, answer = openai.complete("chat/completions", **{"messages": ASKED, "max_tokens": 60, **body})
    assert status == 200, answer
    return answer


def json_schema(schema: object) -> dict:
    return {"type": "json_schema", "json_schema": {"name": "claim", "schema": schema}}


def with_parameters(schema: object) -> dict:
    return {"type": "function", "function": {"name": "search", "parameters": schema}}


def test_a_reply_keeps_a_json_schema(openai):
    answer = chat(openai, response_format=json_schema(SCHEMA), n=32)

    replies = [json.loads(choice["message"]["content"]) for choice in answer["choices"]]
    assert all(isinstance(reply["score"], int) and len(reply.get("claim", "")) <= 8 for reply in replies)
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}
    assert len({choice["message"]["content"] for choice in answer["choices"]}) > 16


def test_a_reply_is_a_json_object(openai):
    answer = chat(openai, response_format={"type": "json_object"}, n=16)
    replies = [json.loads(choice["message"]["content"]) for choice in answer["choices"]]
    assert {type(reply) for reply in replies} == {dict}
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}

    body = {
        "model": "crucible/tiny",
        "input": "claim 7",
        "max_output_tokens": 40,
        "text": {"format": {"type": "json_object"}},
    }
    status, answer = openai.call("POST", "/oai/api/v1/responses", body)
    assert status == 200, answer
    assert isinstance(json.loads(answer["output"][0]["content"][0]["text"]), dict)

    status, refused = openai.complete(
        "chat/completions", messages=ASKED, response_format={"type": "json_object"}, max_tokens=1
    )
    assert (status, "has 3 tokens at least, and 1 are left" in refused["error"]["message"]) == (400, True), refused


def test_pictures_are_refused_in_a_sentence(openai):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, picture]}]
    status, refused = openai.complete("chat/completions", messages=messages)

    assert (status, refused["error"]["message"]) == (
        400,
        "messages cannot be read: the content of a message must be text: this model reads only text",
    )


def test_a_required_tool_is_called(packaged):
    answer = chat(packaged, tools=[TOOL, OTHER], tool_choice="required", n=8, max_tokens=100)
    named = chat(packaged, tools=[TOOL, OTHER], tool_choice={"type": "function", "function": {"name": "stop"}})

    calls = [call for choice in answer["choices"] for call in choice["message"]["tool_calls"]]
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"tool_calls"}
    assert {choice["message"]["content"] for choice in answer["choices"]} == {None}
    assert {call["function"]["name"] for call in calls} == {"search", "stop"}
    assert all(
        "score" in json.loads(call["function"]["arguments"]) for call in calls if call["function"]["name"] == "search"
    )
    assert len({call["id"] for call in calls}) == 8
    (call,) = named["choices"][0]["message"]["tool_calls"]
    assert (call["type"], call["function"]) == ("function", {"name": "stop", "arguments": "{}"})


def test_tools_and_earlier_calls_are_part_of_the_prompt(packaged):
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "stop", "arguments": "{}"}}],
    }
    result = {"role": "tool", "tool_call_id": "c", "content": "done"}
    sizes = [
        chat(packaged, **body)["usage"]["prompt_tokens"]
        for body in (
            {},
            {"tools": [OTHER]},
            {"tools": [OTHER], "tool_choice": "none"},
            {"messages": [*ASKED, called, result]},
            {"messages": [*ASKED, {**called, "content": [{"type": "text", "text": "Well. "}]}, result]},
        )
    ]

    assert sizes[0] == sizes[2] < sizes[1]
    assert sizes[4] > sizes[3] > sizes[0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"response_format": {"type": "grammar"}}, "response_format 'grammar' is not supported by this server"),
        (
            {"response_format": json_schema({"type": "string", "contentEncoding": "base64"})},
            "# has 'contentEncoding', which this model's decoding",
        ),
        ({"response_format": json_schema({"type": "thing"})}, "#/type is ['thing']; expected one of object, array"),
        ({"response_format": json_schema({"$ref": "#/$defs/a"})}, "$ref '#/$defs/a' names nothing in this schema"),
        (
            {"response_format": json_schema(SCHEMA), "max_tokens": 5},
            "has 13 tokens at least, and 5 are left: raise max_tokens",
        ),
        ({"tools": "all"}, "tools must be a list"),
        ({"tools": [{"type": "function"}]}, "each of tools must be"),
        ({"tool_choice": "required"}, "tool_choice needs tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "no"}}}, "tool_choice names 'no'"),
        (
            {"response_format": json_schema({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})},
            "no reply has this format: each of its values contains another one",
        ),
        (
            {"tools": [with_parameters({"type": "array"})], "tool_choice": "required"},
            "the parameters of tool 'search' have the type 'array'; expected object",
        ),
        (
            {"tools": [with_parameters({"properties": {"a": {"type": "thing"}}})], "tool_choice": "required"},
            "the parameters of tool 'search': #/properties/a/type is ['thing']",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": 3}]},
            "a tool call in messages must have a function with a name",
        ),
        ({"messages": []}, "expected a list of messages, not an empty list"),
        ({"tools": [TOOL], "tool_choice": "always"}, "tool_choice is 'always'; expected none, auto, required"),
    ],
)
def test_an_unsupported_format_is_refused(openai, body, words):
    status, answer = openai.complete("chat/completions", **{"messages": ASKED, "max_tokens": 60, **body})

    assert status == 400, answer
    assert words in answer["error"]["message"]


def test_embeddings_are_of_length_one_and_the_same_in_both_encodings(openai):
    status, answer = openai.complete("embeddings", input=["claim 7", "document 49", [70, 71]])
    assert status == 200, answer
    vectors = np.array([row["embedding"] for row in answer["data"]])
    assert vectors.shape == (3, SHAPE.width)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 4

    _, packed = openai.complete("embeddings", input="claim 7", encoding_format="base64")
    same = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4")
    assert same == pytest.approx(vectors[0], abs=1e-6)
    for body, words in (
        ({"input": "a", "dimensions": 3}, "dimensions must be 64"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format is 'int8'"),
        ({"input": [["a"]]}, "input must be a list of whole numbers"),
    ):
        status, refused = openai.complete("embeddings", **body)
        assert (status, words in refused["error"]["message"]) == (400, True), refused


def read_stream(openai: OpenAI, path: str, **body: object) -> list[dict]:
    request = {"model": "crucible/tiny", "seed": 1, "max_tokens": 60, "stream": True, **body}
    status, kind, content = openai.raw("POST", f"/oai/api/v1/{path}", json.dumps(request).encode())
    assert (status, kind) == (200, "text/event-stream")
    *events, end, nothing = content.decode().split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def whole_texts(events: list[dict]) -> list[str]:
    texts: dict[int, str] = {}
    for event in events:
        for choice in event["choices"]:
            text = choice["text"] if "text" in choice else choice["delta"].get("content") or ""
            texts[choice["index"]] = texts.get(choice["index"], "") + text
    return [texts[index] for index in sorted(texts)]


@pytest.mark.parametrize("stop", [None, ["e"], ["tion 7", " is"]])
@pytest.mark.parametrize("seed", range(4))
def test_the_pieces_of_a_stream_are_the_whole_reply(packaged, stop, seed):
    body = {"prompt": ["Document 12: ", "2 + 2 ="], "n": 3, "seed": seed, "stop": stop, "max_tokens": 60}
    _, whole = packaged.complete(**body)
    events = read_stream(packaged, "completions", **body, stream_options={"include_usage": True})

    assert whole_texts(events) == [choice["text"] for choice in whole["choices"]]
    ends = {c["index"]: c["finish_reason"] for event in events for c in event["choices"] if c["finish_reason"]}
    assert [ends[index] for index in sorted(ends)] == [choice["finish_reason"] for choice in whole["choices"]]
    assert events[-1]["usage"] == whole["usage"]
    assert len(events) > 12
    assert len({event["id"] for event in events}) == 1


def test_a_chat_is_streamed_with_its_format_and_its_tools(packaged):
    formatted = {"messages": ASKED, "response_format": json_schema(SCHEMA)}
    events = read_stream(packaged, "chat/completions", **formatted)
    assert whole_texts(events) == [chat(packaged, **formatted)["choices"][0]["message"]["content"]]
    assert "score" in json.loads(whole_texts(events)[0])

    called = read_stream(packaged, "chat/completions", messages=ASKED, tools=[OTHER], tool_choice="required")
    (call,) = called[-1]["choices"][0]["delta"]["tool_calls"]
    assert (call["index"], call["function"]) == (0, {"name": "stop", "arguments": "{}"})
    assert called[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert "".join(whole_texts(called)) == ""
    # The results of calls are distinguished by their ids, also those of several turns.
    again = read_stream(packaged, "chat/completions", messages=ASKED, tools=[OTHER], tool_choice="required")
    assert again[-1]["choices"][0]["delta"]["tool_calls"][0]["id"] != call["id"]


def test_responses_give_the_chat_reply(packaged):
    system = {"role": "system", "content": "Document 12: water is wet."}
    body = {"seed": 5, "temperature": 0.7}
    whole = chat(packaged, messages=[system, *ASKED], max_tokens=12, **body)["choices"][0]["message"]["content"]
    parts = [{"role": "user", "content": [{"type": "input_text", "text": ASKED[0]["content"]}]}]
    for content in (ASKED[0]["content"], ASKED, parts):
        request = {
            "model": "crucible/tiny",
            "input": content,
            "instructions": system["content"],
            "max_output_tokens": 12,
            **body,
        }
        status, answer = packaged.call("POST", "/oai/api/v1/responses", request)
        assert status == 200, answer
        assert answer["output"][0]["content"][0] == {"type": "output_text", "text": whole, "annotations": []}
    defaults = {"background": False, "include": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    assert packaged.call("POST", "/oai/api/v1/responses", {**request, **defaults})[0] == 200
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})

    form = {"format": {"type": "json_schema", "name": "claim", "schema": SCHEMA}}
    status, answer = packaged.call(
        "POST", "/oai/api/v1/responses", {"model": "crucible/tiny", "input": "a", "text": form}
    )
    assert "score" in json.loads(answer["output"][0]["content"][0]["text"])
    for body, words in (
        ({"input": "a", "previous_response_id": "resp-1"}, "previous_response_id is not supported"),
        (
            {"input": "a", "tools": [{"type": "web_search"}]},
            "a tool has the type 'web_search', which is not served here",
        ),
        ({"input": []}, "input must be a text or a list of messages and other items"),
    ):
        status, refused = packaged.call("POST", "/oai/api/v1/responses", {"model": "crucible/tiny", **body})
        assert (status, words in refused["error"]["message"]) == (400, True), refused


def test_responses_call_tools_and_are_streamed(packaged):
    """A call, its result and the reply to it: the same reply whole and as events."""
    tool = {"type": "function", **OTHER["function"]}
    body = {"model": "crucible/tiny", "input": ASKED, "tools": [tool], "max_output_tokens": 60, "seed": 3}
    status, answer = packaged.call("POST", "/oai/api/v1/responses", {**body, "tool_choice": "required"})
    (call,) = answer["output"]
    assert (status, call["type"], call["name"], call["arguments"]) == (200, "function_call", "stop", "{}")

    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "stopped"}
    further = {**body, "input": [*ASKED, call, result], "tool_choice": "none"}
    _, whole = packaged.call("POST", "/oai/api/v1/responses", further)
    _, kind, content = packaged.raw("POST", "/oai/api/v1/responses", json.dumps({**further, "stream": True}).encode())
    events = [event.data for event in read_events(content)]
    assert kind == "text/event-stream"
    assert events[-1]["response"]["output"][0]["content"] == whole["output"][0]["content"]
    assert events[-1]["response"]["usage"] == whole["usage"]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == whole["output"][0]["content"][0]["text"]
    assert len(deltas) > 1
