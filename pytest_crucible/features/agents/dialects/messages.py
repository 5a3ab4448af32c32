"""Anthropic's Messages, read into chats and written from replies.

What has no counterpart is left out: cache marks, citations, the mark of a failed tool result, and the budget of thinking (an effort
is passed on). Numbers of tokens that are not known are 0; in a stream those of the prompt come with the last message_delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_crucible.features.agents.dialects.dialect import ClientRequest, leave_out_provider_tools
from pytest_crucible.features.agents.dialects.messages_stream import MessageStream, write_message
from pytest_crucible.features.agents.dialects.tool_inputs import read_arguments
from pytest_crucible.local_model.server.openai_bodies import (
    read_field,
    read_model,
    read_objects,
    read_parameters,
    read_part,
    refuse_kind,
)
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.records import Reply

Fields = dict[str, Any]

_READ_HERE = (
    "messages",
    "model",
    "stream",
    "system",
    "thinking",
    "tools",
    "tool_choice",
    "stop_sequences",
    "output_config",
)
# For the provider alone: they change bills, caches and places, not replies.
_ITS_OWN = ("cache_control", "inference_geo", "diagnostics", "speed", "user_profile_id", "workspace_id", "betas")
_NOT_SERVED = ("container", "mcp_servers")
_PROVIDER_TOOLS = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_")
_FUNCTION = ("name", "description", "strict")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class Messages:
    """Reads and writes messages."""

    def read(self, body: Mapping[str, Any]) -> ClientRequest:
        _check_served(body)
        output, choice = read_part(body, "output_config"), read_part(body, "tool_choice")
        parameters = read_parameters(body, *_READ_HERE, *_ITS_OWN, *_NOT_SERVED)
        tools, left_out = leave_out_provider_tools(read_objects(body.get("tools") or [], "tools"), _PROVIDER_TOOLS)
        parameters |= {
            "stop": body.get("stop_sequences") or None,
            "tools": [_read_tool(tool) for tool in tools] or None,
            "tool_choice": _read_choice(choice),
            "parallel_tool_calls": False if choice.get("disable_parallel_tool_use") else None,
            "response_format": _read_format(read_part(output, "format")),
            "reasoning_effort": output.get("effort"),
        }
        return ClientRequest(
            _read_system(body) + [message for turn in _turns(body) for message in _read_turn(turn)],
            {name: value for name, value in parameters.items() if value is not None},
            read_model(body),
            stream=body.get("stream") is True,
            with_reasoning=read_part(body, "thinking").get("type", "disabled") != "disabled",
            left_out=left_out,
        )

    def answer(self, request: ClientRequest, reply: Reply, answer_id: str, created: int) -> Fields:
        return write_message(request, reply, answer_id)

    def stream(self, request: ClientRequest, answer_id: str, created: int) -> MessageStream:
        return MessageStream(request, answer_id)

    def error(self, sentence: str, status: int, code: str | None) -> Fields:
        details = {"details": {"error_code": code}} if code else {}
        kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": sentence, **details}}


def _check_served(body: Mapping[str, Any]) -> None:
    if body.get("thread"):
        sentence = "thread is not supported here, because nothing is stored: send the whole conversation without it"
        raise Refusal(sentence, code="thread_unsupported_request")
    for name in _NOT_SERVED:
        if body.get(name):
            raise Refusal(
                f"{name} is run by the provider's own servers, and not served here: send the request without it"
            )


def _read_tool(tool: Fields) -> Fields:
    if tool.get("type") not in (None, "custom"):
        raise refuse_kind(tool["type"], "a tool", ["custom"])
    read_field(tool, "name", "a tool")
    function = {name: tool[name] for name in _FUNCTION if tool.get(name) is not None}
    return {"type": "function", "function": {**function, "parameters": tool.get("input_schema") or {"type": "object"}}}


def _read_choice(choice: Mapping[str, Any]) -> Any:
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": read_field(choice, "name", "tool_choice")}}
    if kind is not None and kind not in _CHOICES:
        raise refuse_kind(kind, "tool_choice", [*_CHOICES, "tool"])
    return _CHOICES.get(str(kind))


def _read_format(form: Mapping[str, Any]) -> Fields | None:
    if not form:
        return None
    if form.get("type") != "json_schema":
        raise refuse_kind(form.get("type"), "output_config.format", ["json_schema"])
    # Chats want a name for a schema, and this format has none.
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": form.get("schema"), "strict": True}}


def _read_system(body: Mapping[str, Any]) -> list[Fields]:
    return [{"role": "system", "content": _read_content(body["system"])}] if body.get("system") else []


def _turns(body: Mapping[str, Any]) -> list[Fields]:
    turns = read_objects(body.get("messages"), "messages")
    for turn in turns:
        if turn.get("role") not in ("user", "assistant", "system"):
            raise Refusal(f"messages has the role {turn.get('role')!r}; expected user, assistant or system")
    return turns


def _read_turn(turn: Fields) -> list[Fields]:
    """Return the messages of one turn: results of tools come before what the user adds to them."""
    role, content = turn["role"], turn.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    blocks = read_objects(content, "content")
    if role == "assistant":
        return [_read_answer(blocks)]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    others = [block for block in blocks if block.get("type") != "tool_result"]
    messages: list[Fields] = [
        {
            "role": "tool",
            "tool_call_id": read_field(result, "tool_use_id", "a tool_result"),
            "content": _read_content(result.get("content") or ""),
        }
        for result in results
    ]
    return messages + ([{"role": role, "content": _read_content(others)}] if others or not results else [])


def _read_answer(blocks: list[Fields]) -> Fields:
    """Return the assistant's message. Thinking that came encrypted is left out."""
    texts = [block for block in blocks if block.get("type") not in ("thinking", "redacted_thinking", "tool_use")]
    calls = [
        {
            "id": read_field(block, "id", "a tool_use"),
            "type": "function",
            "function": {
                "name": read_field(block, "name", "a tool_use"),
                "arguments": read_arguments(block.get("input")),
            },
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    thinking = "".join(str(block.get("thinking") or "") for block in blocks)
    message: Fields = {"role": "assistant", "content": _read_content(texts) if texts else None if calls else ""}
    message |= {"reasoning_content": thinking} if thinking else {}
    return message | ({"tool_calls": calls} if calls else {})


def _read_content(content: Any) -> Any:
    """Return content in the form of chats; that of a single text is the text."""
    if isinstance(content, str):
        return content
    parts = [part for block in read_objects(content, "content") for part in _read_block(block)]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _read_block(block: Fields) -> list[Fields]:
    kind, source = block.get("type"), read_part(block, "source")
    form = (kind, source.get("type"))
    if kind == "text":
        return [{"type": "text", "text": read_field(block, "text", "content")}]
    if form == ("image", "url"):
        return [{"type": "image_url", "image_url": {"url": read_field(source, "url", "an image")}}]
    if form == ("image", "base64"):
        return [{"type": "image_url", "image_url": {"url": _data_url(source)}}]
    if form == ("document", "text"):
        return [{"type": "text", "text": read_field(source, "data", "a document")}]
    if form == ("document", "base64"):
        name = block.get("title") or "document.pdf"
        return [{"type": "file", "file": {"filename": name, "file_data": _data_url(source)}}]
    if kind in ("image", "document"):
        raise refuse_kind(source.get("type"), f"the source of {kind}", ["text", "base64", "url of an image"])
    raise refuse_kind(kind, "content", ["text", "image", "document", "tool_use", "tool_result", "thinking"])


def _data_url(source: Mapping[str, Any]) -> str:
    return f"data:{read_field(source, 'media_type', 'source')};base64,{read_field(source, 'data', 'source')}"
