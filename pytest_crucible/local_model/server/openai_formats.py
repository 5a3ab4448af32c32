"""`response_format` and `tools` of chat requests: as a grammar that the reply keeps, as text of the prompt, and read back.

A tool call is written as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, in replies and in earlier messages.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.local_model.chat import message_text
from pytest_crucible.local_model.grammar import Language, Node, choice, literal, sequence
from pytest_crucible.local_model.json_schema import json_node, object_node
from pytest_crucible.local_model.server.messages import Json, bad_request
from pytest_crucible.local_model.server.request_fields import Body, json_object, text
from pytest_crucible.local_model.tokens import Tokenizer

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_OPENING, _CLOSING = re.compile(re.escape(_OPEN) + r"\s*"), re.compile(r"\s*" + re.escape(_CLOSE))
_EXPECTED_CHOICE = "expected none, auto, required, or {'type': 'function', 'function': {'name': ...}}"


def read_language(body: Body, tokenizer: Tokenizer) -> Language | None:
    """Return the language that a reply has to keep; None for any text. Refuses a schema that cannot be kept."""
    tools, required = read_tools(body), _required_tool(body)
    if required is not None:
        named = [tool for tool in tools if required in ("", tool["name"])]
        if not named:
            raise bad_request(
                f"tool_choice names {required!r}, which is not in tools" if required else "tool_choice needs tools"
            )
        return _compile(json.dumps([[tool["name"], tool.get("parameters", {})] for tool in named]), True, tokenizer)
    form = json_object(body, "response_format", {})
    if (kind := text(form, "type", "text")) == "text":
        return None
    if kind == "json_object":
        return _compile(json.dumps(None), False, tokenizer)
    if kind != "json_schema":
        raise bad_request(
            f"response_format {kind!r} is not supported by this server: use text, json_object or json_schema"
        )
    schema = json_object(json_object(form, "json_schema"), "schema")
    return _compile(json.dumps(schema), False, tokenizer)


def read_tools(body: Body) -> list[Mapping[str, Any]]:
    """Return the functions of `tools`, which are not used where tool_choice is "none"."""
    tools = body.get("tools") or []
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise bad_request("tools must be a list")
    functions = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) and tool.get("type") == "function" else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise bad_request(
                "each of tools must be {'type': 'function', 'function': {'name': ..., 'parameters': ...}}"
            )
        functions.append(function)
    return [] if body.get("tool_choice") == "none" else functions


def with_tools(messages: Json, body: Body) -> Json:
    """Return the messages as texts: tools come first, and tool calls are written out."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return messages
    written: list[Json] = [_write_calls(message) for message in messages]
    if not (tools := read_tools(body)):
        return written
    lines = [
        json.dumps({name: tool[name] for name in ("name", "description", "parameters") if name in tool})
        for tool in tools
    ]
    call = f'{_OPEN}{{"name": ..., "arguments": {{...}}}}{_CLOSE}'
    system = "\n".join(("Tools:", *lines, f"To call one: {call}"))
    return [{"role": "system", "content": system}, *written]


def split_calls(reply: str, prefix: str) -> tuple[str | None, list[Json]]:
    """Return a reply's text and its tool calls in OpenAI's format; a call that cannot be read stays text."""
    calls: list[Json] = []
    texts, position = list[str](), 0
    # No call can follow the last end of one. Searching there, too, a reply of openings alone would take quadratic time.
    for opening in _OPENING.finditer(reply, 0, max(0, reply.rfind(_CLOSE))):
        function, end = _read_call(reply, opening.end())
        # One that begins within the call before it is part of its arguments.
        if function is not None and opening.start() >= position:
            calls.append({"id": f"{prefix}-{len(calls)}", "type": "function", "function": function})
            texts.append(reply[position : opening.start()])
            position = end
    rest = "".join((*texts, reply[position:]))
    return (rest.strip() or None if calls else rest), calls


def _read_call(reply: str, start: int) -> tuple[dict[str, Json] | None, int]:
    """Return the function that a call names and where the call ends; None if it is not a name and an object of arguments."""
    try:
        call, end = _DECODER.raw_decode(reply, start)
        name, arguments = call["name"], call["arguments"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, start
    closing = _CLOSING.match(reply, end)
    if closing is None or not isinstance(name, str) or not isinstance(arguments, dict):
        return None, start
    return {"name": name, "arguments": json.dumps(arguments)}, closing.end()


def _refuse_constant(name: str) -> None:
    """Raise ValueError: Python reads NaN and Infinity, which are not JSON."""
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _required_tool(body: Body) -> str | None:
    """Return the name of the tool that has to be called, empty for any; None if none has to be."""
    choice = body.get("tool_choice")
    if choice in (None, "none", "auto"):
        return None
    if choice == "required":
        return ""
    function = choice.get("function") if isinstance(choice, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise bad_request(f"tool_choice is {choice!r}; {_EXPECTED_CHOICE}")
    return str(function["name"])


@functools.lru_cache(maxsize=32)
def _compile(schemas: str, is_call: bool, tokenizer: Tokenizer) -> Language:
    """Return the language of a schema, of any object for null, or of calls of tools.

    The same request comes often, and compiling takes time.
    """
    content = json.loads(schemas)
    if is_call:
        node = choice(_call_node(name, schema) for name, schema in content)
    else:
        node = object_node() if content is None else json_node(content)
    return Language(node, [tokenizer.bytes_of([token]) for token in range(tokenizer.pad)], tokenizer.eos)


def _call_node(name: str, schema: Any) -> Node:
    start = f'{_OPEN}{{"name": {json.dumps(name)}, "arguments": '
    if isinstance(schema, Mapping) and schema.get("type", "object") != "object":
        raise ValueError(f"the parameters of tool {name!r} have the type {schema['type']!r}; expected object")
    try:
        arguments = json_node(schema) if schema else literal("{}")
    except ValueError as error:
        raise ValueError(f"the parameters of tool {name!r}: {error}") from None
    return sequence(literal(start), arguments, literal(f"}}{_CLOSE}"))


def _write_calls(message: Any) -> Any:
    """Return a message whose tool calls are part of its text."""
    if not isinstance(message, Mapping) or not message.get("tool_calls"):
        return message
    try:
        texts = [message_text(message)] if message.get("content") else []
        for call in message["tool_calls"]:
            function = call["function"]
            content = {"name": function["name"], "arguments": json.loads(function["arguments"])}
            texts.append(f"{_OPEN}{json.dumps(content)}{_CLOSE}")
    except (TypeError, KeyError, ValueError):
        raise bad_request(
            "a tool call in messages must have a function with a name, and its arguments as JSON, beside text alone"
        ) from None
    return {"role": message.get("role"), "content": "".join(texts)}
