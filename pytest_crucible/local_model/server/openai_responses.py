"""The format of OpenAI's /responses: read into that of chats, and written from replies, whole or as events.

Nothing is stored: a request has the whole conversation, and ids of items are dropped. Tools that OpenAI's own servers run are
refused. Numbers of tokens that are not known, such as those read from a cache, are 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from pytest_crucible.local_model.server.openai_bodies import (
    read_field,
    read_model,
    read_objects,
    read_parameters,
    read_part,
    refuse_kind,
)
from pytest_crucible.local_model.server.openai_tools import ADDED, OwnTool, name_in_chats, read_tools, write_text_input
from pytest_crucible.local_model.server.openai_wire import (
    SentText,
    write_calls,
    write_error,
    write_event,
    write_logprobs,
    write_usage,
)
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply

Fields = dict[str, Any]

# They name what the provider has stored, or run later.
_STORED = {"previous_response_id": "the whole conversation as input", "conversation": "the whole conversation as input"}
_STORED |= {"prompt": "its text as instructions and input", "background": "the request without it"}
_OWN_FIELDS = ("input", "instructions", "model", "stream", "max_output_tokens", "max_tool_calls")
_OWN_FORMS = ("reasoning", "text", "tools", "tool_choice", "top_logprobs")
_LOGPROBS = "message.output_text.logprobs"


def read_request(body: Mapping[str, Any], tools: Sequence[Fields]) -> Fields:
    """Return the request as the body of a chat: model, messages and parameters. Raises Refusal for what cannot be served.

    `tools` are those of `list_tools` that are offered.
    """
    for name, instead in _STORED.items():
        if body.get(name):
            raise Refusal(f"{name} is not supported here, because nothing is stored: send {instead}")
    parameters = read_parameters(body, *_OWN_FIELDS, *_OWN_FORMS, *_STORED)
    parameters |= {
        "max_tokens": body.get("max_output_tokens"),
        "reasoning_effort": _read_effort(body),
        "verbosity": read_part(body, "text").get("verbosity"),
        "response_format": _read_format(read_part(read_part(body, "text"), "format")),
        "tools": read_tools(tools) or None,
        "tool_choice": _read_choice(body.get("tool_choice")),
    }
    if _LOGPROBS in (body.get("include") or ()):
        parameters |= {"logprobs": True, "top_logprobs": body.get("top_logprobs")}
    set_parameters = {name: value for name, value in parameters.items() if value is not None}
    return {"model": read_model(body), "messages": _read_messages(body), **set_parameters}


def _read_effort(body: Mapping[str, Any]) -> Any:
    """Return the effort of reasoning: that of the last change in the conversation, if there is one."""
    items = body["input"] if isinstance(body.get("input"), list) else []
    changes = [item for item in items if isinstance(item, Mapping) and item.get("type") == _CHANGE]
    return read_part(next(reversed(changes), body), "reasoning").get("effort")


def _read_format(form: Mapping[str, Any]) -> Fields | None:
    kind = form.get("type")
    if kind in (None, "text"):
        return None
    if kind != "json_schema":
        return {"type": kind}
    return {"type": kind, kind: {name: value for name, value in form.items() if name != "type" and value is not None}}


def _read_choice(choice: Any) -> Any:
    """Return `tool_choice` in the form of chats."""
    if not isinstance(choice, Mapping):
        return choice
    kind = choice.get("type")
    if kind in ("function", "custom"):
        return {"type": "function", "function": {"name": choice.get("name")}}
    if kind == "allowed_tools":
        allowed = [_read_choice(tool) for tool in read_objects(choice.get("tools"), "tool_choice.tools")]
        return {"type": kind, kind: {"mode": choice.get("mode"), "tools": allowed}}
    raise refuse_kind(kind, "tool_choice", ["auto", "none", "required", "function", "custom", "allowed_tools"])


def _read_messages(body: Mapping[str, Any]) -> list[Fields]:
    content, instructions = body.get("input"), body.get("instructions")
    if isinstance(content, str):
        content = [{"role": "user", "content": content}]
    if not isinstance(content, list) or not content:
        raise Refusal("input must be a text or a list of messages and other items")
    messages: list[Fields] = [{"role": "system", "content": _read_content(instructions)}] if instructions else []
    for item in read_objects(content, "input"):
        _add_item(messages, item)
    return messages


def _add_item(messages: list[Fields], item: Fields) -> None:
    """Add an item to the messages: text, reasoning and calls of one turn of the assistant are one message."""
    kind = item.get("type") or "message"
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = _read_content(item.get("output"))
        messages.append({"role": "tool", "tool_call_id": read_field(item, "call_id", kind), "content": output})
    elif kind in ("function_call", "custom_tool_call"):
        function = _read_call(item, kind)
        call = {"id": read_field(item, "call_id", kind), "type": "function", "function": function}
        _open_turn(messages).setdefault("tool_calls", []).append(call)
    elif kind == "reasoning":
        if text := _read_reasoning(item):
            _open_turn(messages, "reasoning_content")["reasoning_content"] = text
    elif kind == "message":
        role, content = read_field(item, "role", "a message"), _read_content(item.get("content"))
        if role == "assistant":
            _open_turn(messages, "content", "tool_calls")["content"] = content
        else:
            messages.append({"role": role, "content": content})
    elif kind not in (ADDED, _CHANGE):
        raise refuse_kind(kind, "an item of input", _ITEMS)


_CHANGE = "configuration_update"
_CALLS = ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
_ITEMS = ("message", *_CALLS, "reasoning")


def _read_call(item: Fields, kind: str) -> Fields:
    is_text = kind == "custom_tool_call"
    arguments = write_text_input(read_field(item, "input", kind)) if is_text else read_field(item, "arguments", kind)
    return {"name": name_in_chats(read_field(item, "name", kind), item.get("namespace")), "arguments": arguments}


def _open_turn(messages: list[Fields], *absent: str) -> Fields:
    """Return the assistant's message at the end, or a new one if that has any of these fields already."""
    last = messages[-1] if messages else {}
    if last.get("role") != "assistant" or any(last.get(name) is not None for name in absent):
        last = {"role": "assistant", "content": None}
        messages.append(last)
    return last


def _read_reasoning(item: Mapping[str, Any]) -> str:
    return "".join(str(part.get("text") or "") for part in read_objects(item.get("content") or [], "reasoning"))


def _read_content(content: Any) -> Any:
    """Return content in the form of chats; that of a single text is the text."""
    if isinstance(content, str):
        return content
    parts = [_read_part(part) for part in read_objects(content, "content")]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _read_part(part: Fields) -> Fields:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": read_field(part, "text", "content")}
    if kind == "refusal":
        return {"type": "text", "text": read_field(part, "refusal", "content")}
    if kind == "input_image":
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": read_field(part, "image_url", "an image"), **detail}}
    if kind == "input_file":
        names = ("file_data", "filename", "file_id", "file_url")
        return {"type": "file", "file": {name: part[name] for name in names if part.get(name) is not None}}
    raise refuse_kind(kind, "a part of content", ["input_text", "output_text", "input_image", "input_file"])


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The answer to one request, from its beginning to its end."""

    answer_id: str
    created: int
    model: str
    parameters: Mapping[str, Any]
    """In the form of chats."""
    earlier_calls: int = 0
    """Tool calls in the conversation before it."""
    own_tools: Mapping[str, OwnTool] = field(default_factory=dict)
    """Tools that chats do not have, by the names of their functions in chats."""

    def begin(self) -> Fields:
        """Return the response before its first item. Its usage is null: clients add what comes here to that of the end."""
        tools = [{"type": "function", **tool["function"]} for tool in self.parameters.get("tools", ())]
        choice = self.parameters.get("tool_choice", "auto")
        return {
            "id": f"resp_{self.answer_id}",
            "object": "response",
            "created_at": self.created,
            "model": self.model,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "output": [],
            "parallel_tool_calls": self.parameters.get("parallel_tool_calls", True),
            "tool_choice": choice if isinstance(choice, str) else {"type": choice["type"], **choice[choice["type"]]},
            "tools": tools,
            "usage": None,
            "metadata": {},
        }

    def end(self, reply: Reply, items: list[Fields]) -> Fields:
        """Return the response with all items. A truncated or filtered reply is incomplete."""
        usage = write_usage(reply.input_tokens, reply.output_tokens)
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        reason = reasons.get(reply.finish)
        return {
            **self.begin(),
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": items,
            "usage": {
                "input_tokens": usage["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage["total_tokens"],
            },
            **({"system_fingerprint": reply.system_fingerprint} if reply.system_fingerprint else {}),
        }

    def items(self, reply: Reply, *, text_first: bool = False) -> list[Fields]:
        """Return reasoning, text and calls; the text comes first where it was sent before the reasoning was known."""
        reasoning = [self._reasoning(reply)] if reply.reasoning else []
        calls = [self._call(number, call) for number, call in enumerate(write_calls(reply, self.earlier_calls))]
        texts = [self.message(reply)] if reply.text or not calls else []
        return [*texts, *reasoning, *calls] if text_first else [*reasoning, *texts, *calls]

    def _call(self, number: int, call: Mapping[str, Any]) -> Fields:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        tool = self.own_tools.get(name) or OwnTool(name, None, has_text_input=False)
        place: Fields = {"id": f"fc_{self.answer_id}_{number}", "call_id": call["id"], "status": "completed"}
        return {**tool.write_call(arguments), **place}

    def message(self, reply: Reply) -> Fields:
        """Return the item with the text."""
        part: Fields = {"type": "output_text", "text": reply.text, "annotations": []}
        if self.parameters.get("logprobs") and reply.logprobs is not None:
            part["logprobs"] = write_logprobs(reply)
        status = "incomplete" if reply.finish in ("length", "content_filter") else "completed"
        item: Fields = {"type": "message", "id": f"msg_{self.answer_id}", "role": "assistant", "status": status}
        return {**item, "content": [part]}

    def _reasoning(self, reply: Reply) -> Fields:
        content = [{"type": "reasoning_text", "text": reply.reasoning}]
        return {
            "type": "reasoning",
            "id": f"rs_{self.answer_id}",
            "summary": [],
            "content": content,
            "status": "completed",
        }


def write_response(form: ResponseForm, reply: Reply) -> Fields:
    """Return the whole response."""
    return form.end(reply, form.items(reply))


@dataclass(slots=True)
class ResponseEvents:
    """Writes the events of one response. The last one has the whole response."""

    form: ResponseForm
    _sent: SentText = field(default_factory=SentText)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def begin(self) -> bytes:
        start = self.form.begin()
        return self._event("response.created", response=start) + self._event("response.in_progress", response=start)

    def piece(self, text: str) -> bytes:
        is_first = not self._sent
        self._sent.add(text)
        if not text:
            return b""
        item = self.form.message(Reply(text=""))
        opening = b"".join((self._open(0, item), self._open_part(0, item, 0))) if is_first else b""
        return opening + self._delta(0, item, 0, text)

    def end(self, reply: Reply) -> bytes:
        rest = self._sent.rest(reply.text)
        if rest is None:
            return self.fail(SentText.DIFFERS)
        items = self.form.items(reply, text_first=bool(self._sent))
        events: list[bytes] = []
        for index, item in enumerate(items):
            is_open = index == 0 and bool(self._sent)
            events += self._continue(item, rest) if is_open else self._whole(index, item)
        response = self.form.end(reply, items)
        return b"".join((*events, self._event(f"response.{response['status']}", response=response)))

    def fail(self, sentence: str) -> bytes:
        error = write_error(sentence, 500)["error"]
        return self._event("error", code=None, message=sentence, param=None, error=error)

    def _whole(self, index: int, item: Fields) -> Iterator[bytes]:
        yield self._open(index, item)
        for place, part in enumerate(item.get("content", ())):
            yield self._open_part(index, item, place)
            yield self._delta(index, item, place, part["text"])
            yield self._close_part(index, item, place)
        where = {"item_id": item["id"], "output_index": index}
        if (arguments := item.get("arguments")) is not None:
            yield self._event("response.function_call_arguments.delta", **where, delta=arguments)
            yield self._event("response.function_call_arguments.done", **where, name=item["name"], arguments=arguments)
        if (text := item.get("input")) is not None:
            yield self._event("response.custom_tool_call_input.delta", **where, delta=text)
            yield self._event("response.custom_tool_call_input.done", **where, input=text)
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _continue(self, item: Fields, rest: str) -> Iterator[bytes]:
        if rest:
            yield self._delta(0, item, 0, rest)
        yield self._close_part(0, item, 0)
        yield self._event("response.output_item.done", output_index=0, item=item)

    def _open(self, index: int, item: Fields) -> bytes:
        parts: Fields = {"content": [], "arguments": "", "input": ""}
        empty = {name: value for name, value in parts.items() if name in item}
        started = {**item, "status": "in_progress", **empty}
        return self._event("response.output_item.added", output_index=index, item=started)

    def _open_part(self, index: int, item: Fields, place: int) -> bytes:
        part = {**item["content"][place], "text": ""}
        return self._event("response.content_part.added", **_where(index, item, place), part=part)

    def _delta(self, index: int, item: Fields, place: int, text: str) -> bytes:
        kind = item["content"][place]["type"]
        return self._event(f"response.{kind}.delta", **_where(index, item, place), delta=text, **_logprobs(kind))

    def _close_part(self, index: int, item: Fields, place: int) -> bytes:
        part, where = item["content"][place], _where(index, item, place)
        text = self._event(f"response.{part['type']}.done", **where, text=part["text"], **_logprobs(part["type"]))
        return text + self._event("response.content_part.done", **where, part=part)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return write_event({"type": kind, "sequence_number": next(self._numbers), **fields}, kind)


def _where(index: int, item: Mapping[str, Any], place: int) -> Fields:
    return {"item_id": item["id"], "output_index": index, "content_index": place}


def _logprobs(kind: str) -> Fields:
    """Return the field that events of texts need; the log-probabilities themselves come with the whole response."""
    return {"logprobs": []} if kind == "output_text" else {}
