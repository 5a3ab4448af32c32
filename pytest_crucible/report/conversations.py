"""Conversations as turns: what was sent, and what was replied. The terminal prints them, and pages lay them out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Conversation, StoredCall
from pytest_crucible.records.reasoning import answer_text
from pytest_crucible.records.tool_results import name_results, result_name

NOT_RECORDED = "(not recorded)"
TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True)
class Block:
    """A text or plain data behind its name, such as a role."""

    kind: Literal["message", "reasoning", "reply"]
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One call, one member's part in it, or one request to a judge."""

    heading: str
    """Empty where nothing is said of it: the only call, without parameters of its own."""
    blocks: tuple[Block, ...]
    is_judge: bool = False
    is_role: bool = False
    """Whether another model was called than the arm."""


def conversation_turns(conversation: Conversation, sample_input: Any) -> Iterator[Turn]:
    """Yield the turns of a conversation. Each call sends the whole conversation again: only its new messages are repeated."""
    if not conversation.calls:
        reply = (Block("message", "input", sample_input), Block("reply", "reply", conversation.reply))
        yield Turn("(the messages of this reply were not recorded; this is the sample's input)", reply)
    last: dict[str, StoredCall] = {}
    several = max((call.call for call in conversation.calls if not call.is_judge), default=0) > 1
    for call in conversation.calls:
        heading, messages = "", []
        if call.is_judge:
            heading, messages = f"{call.member}{_about(call)}", _sent(call)
        elif call.is_role or not call.member:
            if several or call.parameters or call.is_role or call.paid_by is not None:
                heading = f"call {call.call}{', ' if call.is_role else ''}{call.member}{_about(call)}"
            messages = _new_messages(_sent(call), last.get(call.member))
            last[call.member] = call
        blocks = (*(block for message in messages for block in _message(message)), *_reply(call))
        yield Turn(heading, blocks, call.is_judge, call.is_role)


def _new_messages(sent: list[Any], last: StoredCall | None) -> list[Any]:
    """Return the messages that the last call of the same model has not sent, and that do not repeat its reply.

    What is not recorded is not repeated either. Tools that are not those of the reply are shown: it may be of a format before 13,
    which did not store them.
    """
    if last is None or not last.is_recorded:
        return sent
    before = _sent(last)
    if sent[: len(before)] != before:
        return sent
    new = sent[len(before) :]
    if not before or last.text is None or not new or new[0].get("role") != "assistant":
        return new
    if (new[0].get("content") or "") != last.text:
        return new
    called = new[0].get(TOOL_CALLS)
    is_repeated = not called or _are_same_tools(called, last.tool_calls)
    return new[1:] if is_repeated else [{"role": "assistant", TOOL_CALLS: called}, *new[1:]]


def _are_same_tools(sent: Any, replied: Any) -> bool:
    """Return whether two lists of tool calls have the same names and arguments. A client may write the JSON of these again."""
    ours, theirs = (
        [(name, _parse_arguments(arguments)) for name, arguments in _functions(calls)] for calls in (sent, replied)
    )
    return bool(ours) and ours == theirs


def _parse_arguments(arguments: Any) -> Any:
    with contextlib.suppress(ValueError, TypeError):
        return json.loads(arguments)
    return arguments


def score_text(value: bool | float | str | None) -> str:
    """Return a score as every page and the terminal show it."""
    if value is None:
        return "not applicable"
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_messages(sent: Any) -> list[Any]:
    """Return the messages of a prompt, results of tools with their names: a text is one of the user's."""
    if isinstance(sent, list) and all(isinstance(message, Mapping) for message in sent):
        return name_results(sent)
    return [{"role": "user", "content": sent}]


def prompt_blocks(sent: Any) -> tuple[Block, ...]:
    """Return the messages of a prompt by role."""
    return tuple(block for message in as_messages(sent) for block in _message(message))


def _sent(call: StoredCall) -> list[Any]:
    return as_messages(NOT_RECORDED if call.messages is None and not call.is_recorded else call.messages)


def _about(call: StoredCall) -> str:
    parts = [f"{name}={parameter_text(name, value)}" for name, value in (call.parameters or {}).items()]
    if call.paid_by is not None:
        parts.append(f"paid by run {call.paid_by}" if call.paid_by else "paid by an earlier run")
    return f" ({', '.join(parts)})" if parts else ""


def parameter_text(name: str, value: Any) -> Any:
    """Return a parameter for a heading: of tools, whose schemas are long, their names."""
    names = [name for name, _ in _functions(value)] if name == "tools" else []
    return f"[{', '.join(map(str, names))}]" if names else value


def _message(message: Mapping[str, Any]) -> Iterator[Block]:
    tool, tools = result_name(message), list(tool_texts(message.get(TOOL_CALLS)))
    content, role = message.get("content"), f"{message.get('role', 'message')}{f' {tool}' if tool else ''}"
    shown_apart = ("role", "content", "tool_call_id", *(["name"] if tool else []), *([TOOL_CALLS] if tools else []))
    rest = {name: value for name, value in message.items() if name not in shown_apart}
    if content if tools else (content is not None or not rest):
        yield Block("message", role, content)
    for call in tools:
        yield Block("message", "tool call", call)
    if rest:
        yield Block("message", role, rest)


def tool_texts(calls: Any) -> Iterator[str]:
    """Yield the tools that a message or a reply calls, as `name(arguments)`; none of calls in another form."""
    for name, arguments in _functions(calls):
        yield f"{name}({arguments or ''})"


def _functions(calls: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the names and arguments of tool calls."""
    for each in calls if isinstance(calls, list | tuple) else ():
        function = each.get("function") if isinstance(each, Mapping) else None
        if isinstance(function, Mapping) and "name" in function:
            yield function["name"], function.get("arguments")


def _reply(call: StoredCall) -> Iterator[Block]:
    name = "assistant" if call.is_judge or call.is_role or not call.member else call.member
    if not call.is_recorded and call.text is None:
        yield Block("reply", "reply", NOT_RECORDED)
    elif call.text is None:
        yield Block("reply", "no reply", call.error or "cancelled")
    if call.text is None:
        return
    if call.reasoning:
        yield Block("reasoning", "reasoning", call.reasoning)
    text = answer_text(call.text) if call.think else call.text
    if text or not call.tool_calls:
        yield Block("reply", name, text.lstrip() if call.reasoning else text)
    for tool in list(tool_texts(call.tool_calls)) or call.tool_calls:
        yield Block("reply", "tool call", tool)
