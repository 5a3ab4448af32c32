"""Tools of OpenAI's /responses that chats do not have, in the form of chats and back.

A function in a namespace is called `NAMESPACE__NAME` there. A tool whose input is a text (`custom`) is a function with the argument
`input`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.local_model.server.openai_bodies import read_field, read_objects, refuse_kind
from pytest_crucible.quick_dataclass import dataclass

Fields = dict[str, Any]

ADDED = "additional_tools"
"""The type of an item of the input that adds tools."""
_FUNCTION = ("name", "description", "parameters", "strict")
_TEXT_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


@dataclass(frozen=True, slots=True)
class OwnTool:
    """A tool of /responses that is a function in chats."""

    name: str
    namespace: str | None
    has_text_input: bool

    def write_call(self, arguments: str) -> Fields:
        """Return the fields of a call that depend on the tool."""
        name = {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}
        if self.has_text_input:
            return {"type": "custom_tool_call", **name, "input": _read_text_input(arguments)}
        return {"type": "function_call", **name, "arguments": arguments}


def list_tools(body: Mapping[str, Any]) -> list[Fields]:
    """Return the tools of a request, which some clients send as items of the input. Raises Refusal if one is not an object."""
    items = body["input"] if isinstance(body.get("input"), list) else []
    added = [item.get("tools") for item in items if isinstance(item, Mapping) and item.get("type") == ADDED]
    return [tool for tools in (body.get("tools"), *added) for tool in read_objects(tools or [], "tools")]


def read_tools(tools: Sequence[Fields]) -> list[Fields]:
    """Return tools in the form of chats. Raises Refusal for one that has none."""
    return [_read_tool(tool, namespace) for tool, namespace in _each_tool(tools)]


def read_own_tools(tools: Sequence[Fields]) -> dict[str, OwnTool]:
    """Return the tools that chats do not have, by the names of their functions in chats."""
    own = [
        OwnTool(str(tool["name"]), namespace, tool["type"] == "custom")
        for tool, namespace in _each_tool(tools)
        if namespace or tool["type"] == "custom"
    ]
    return {name_in_chats(tool.name, tool.namespace): tool for tool in own}


def name_in_chats(name: str, namespace: str | None) -> str:
    """Return the name of a function in chats.

    >>> name_in_chats("close", "agents"), name_in_chats("close", None)
    ('agents__close', 'close')
    """
    return f"{namespace}__{name}" if namespace else name


def write_text_input(text: str) -> str:
    """Return the arguments of the function that a tool with a text is in chats."""
    return json.dumps({"input": text}, ensure_ascii=False)


def _read_text_input(arguments: str) -> str:
    """Return the text that a model passes to a tool as `input`; all that it wrote if there is no such argument."""
    try:
        content = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = content.get("input") if isinstance(content, dict) else None
    return text if isinstance(text, str) else arguments


def _each_tool(tools: Sequence[Fields], namespace: str | None = None) -> Iterator[tuple[Fields, str | None]]:
    """Yield each tool and its namespace. Raises Refusal for one that is not served."""
    for tool in tools:
        if tool.get("type") == "namespace" and namespace is None:
            named = read_field(tool, "name", "a namespace")
            yield from _each_tool(read_objects(tool.get("tools"), f"the tools of {named}"), named)
        elif tool.get("type") in ("function", "custom"):
            read_field(tool, "name", "a tool")
            yield tool, namespace
        else:
            raise refuse_kind(tool.get("type"), "a tool", ["function", "custom", "namespace"])


def _read_tool(tool: Mapping[str, Any], namespace: str | None) -> Fields:
    fields = {name: value for name, value in tool.items() if name in _FUNCTION and value is not None}
    if tool["type"] == "custom":
        fields = {"description": _describe(tool), "parameters": _TEXT_INPUT}
    return {"type": "function", "function": {**fields, "name": name_in_chats(tool["name"], namespace)}}


def _describe(tool: Mapping[str, Any]) -> str:
    """Return a tool's description with the grammar of its text, which chats have no place for."""
    form = tool.get("format")
    grammar = form.get("definition") if isinstance(form, Mapping) else None
    parts: Sequence[Any] = [tool.get("description"), f"The grammar of `input`:\n{grammar}" if grammar else None]
    return "\n\n".join(str(part) for part in parts if part)
