"""The tools whose results a conversation has: a message with a result names the call that it answers, and not the tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

RESULT_ROLES = ("tool", "function")
"""The roles of messages with results; `function` is that of the first form of tools, in which the message names the tool."""


def name_results(messages: Sequence[Any]) -> list[Any]:
    """Return the messages, those with the result of a tool with its `name`, where that is known.

    A result without the id of a call, or with one that no call before has, stays without a name. A client may give several calls
    of a conversation one id: the last of them counts.

    >>> call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    >>> name_results([{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "2"}])[1]
    {'role': 'tool', 'tool_call_id': 'c1', 'content': '2', 'name': 'add'}
    """
    names: dict[str, str] = {}
    named = []
    for message in messages:
        if isinstance(message, Mapping):
            names.update(_function_names(message.get("tool_calls")))
            name = names.get(_text(message.get("tool_call_id"))) if message.get("role") == "tool" else None
            message = {**message, "name": name} if name and not message.get("name") else message
        named.append(message)
    return named


def result_name(message: Mapping[str, Any]) -> str:
    """Return the name of the tool whose result a message has; empty without one.

    >>> result_name({"role": "tool", "name": "add", "content": "2"}), result_name({"role": "user", "name": "Ann"})
    ('add', '')
    """
    return _text(message.get("name")) if message.get("role") in RESULT_ROLES else ""


def _function_names(calls: Any) -> Iterator[tuple[str, str]]:
    """Yield the ids and names of tool calls."""
    for call in calls if isinstance(calls, list | tuple) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and (key := _text(call.get("id"))):
            yield key, _text(function.get("name"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
