"""The Responses API in OpenAI's format, in its plain form: one text, or messages, in; one text out, and nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.messages import Json, Request, Response, bad_request, json_response
from pytest_crucible.local_model.server.openai_chat import answer_chat
from pytest_crucible.local_model.server.openai_models import fingerprint
from pytest_crucible.local_model.server.request_fields import Body
from pytest_crucible.local_model.server.state import Endpoints, Service

_USED = {
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "temperature",
    "top_p",
    "text",
    "seed",
    "metadata",
    "user",
}
# Fields that mean nothing here, or that have their default: ignoring another one would return a wrong reply.
_HARMLESS: Mapping[str, Json] = {
    "store": None,
    "truncation": "disabled",
    "stream": False,
    "background": False,
    "include": [],
    "n": 1,
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "service_tier": "auto",
    "top_logprobs": 0,
}


async def responses(service: Service, request: Request) -> Response:
    """Reply to a text, or to messages."""
    body = request.object()
    _check(body)
    chat: dict[str, Json] = {name: body[name] for name in ("model", "temperature", "top_p", "seed") if name in body}
    chat |= {"messages": _messages(body), "response_format": _format(body)}
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    weights, (reply,), usage = await answer_chat(service, chat)
    number, is_whole = next(service.numbers), reply.stop_reason == "stop"
    text: dict[str, Json] = {"type": "output_text", "text": reply.text, "annotations": []}
    message: dict[str, Json] = {"type": "message", "id": f"msg-{number}", "role": "assistant", "content": [text]}
    return json_response(
        {
            "id": f"resp-{number}",
            "object": "response",
            "created_at": int(service.clock()),
            "model": request_fields.text(body, "model"),
            "status": "completed" if is_whole else "incomplete",
            "incomplete_details": None if is_whole else {"reason": "max_output_tokens"},
            "error": None,
            "output": [{**message, "status": "completed" if is_whole else "incomplete"}],
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": usage["completion_tokens"],
                "total_tokens": usage["total_tokens"],
            },
            **fingerprint(weights),
        }
    )


def _check(body: Body) -> None:
    """Refuse fields that this server would have to ignore."""
    for name in set(body) - _USED:
        if body[name] is not None and name != "store" and body[name] != _HARMLESS.get(name):
            raise bad_request(
                f"{name} is not supported by this server's responses: leave it out, or use chat/completions"
            )


def _messages(body: Body) -> Json:
    """Return the messages: instructions, then the input, whose parts of text are of several types."""
    messages = body.get("input")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, Sequence) or not messages:
        raise bad_request("input must be a text or a list of messages")
    instructions = request_fields.optional_text(body, "instructions")
    first: list[Json] = [] if instructions is None else [{"role": "system", "content": instructions}]
    return [*first, *map(_plain, messages)]


def _plain(message: Json) -> Json:
    """Return a message whose content has the type of chat messages."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(content, list):
        return message
    parts: list[Json] = [
        {**part, "type": "text"}
        if isinstance(part, Mapping) and part.get("type") in ("input_text", "output_text")
        else part
        for part in content
    ]
    return {**message, "content": parts}


def _format(body: Body) -> Json:
    """Return `text.format` as `response_format` of chats."""
    form = request_fields.json_object(request_fields.json_object(body, "text", {}), "format", {})
    kind = request_fields.text(form, "type", "text")
    return {"type": "text"} if kind == "text" else {"type": kind, "json_schema": {**form}}


ENDPOINTS: Endpoints = {("POST", "/responses"): responses}
