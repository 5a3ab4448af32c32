"""Lines of one sample's conversations: the messages as they were sent, turn by turn, and each reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.records import Conversation, StoredCall
from pytest_crucible.report.printable import AN_ID, printable
from pytest_crucible.stats.number_format import quantity

_INDENT, _ROLE = "  ", 10


def conversation_lines(
    nodeid: str, sample: Mapping[str, Any], conversations: Sequence[Conversation], *, reasoning: bool
) -> Iterator[str]:
    """Yield the lines of a conversation. Reasoning is one line with its length, unless `reasoning` is True."""
    yield f"{nodeid}, sample {printable(sample['sample_id'], AN_ID)}"
    for name in ("expected", "metadata"):
        if sample[name] is not None:
            yield from _block(name, sample[name])
    for conversation in conversations:
        yield ""
        yield _head(conversation)
        sent = sample["input"] if conversation.input is None else conversation.input
        yield from _turns(conversation, sent, reasoning)


def _head(conversation: Conversation) -> str:
    draw = f", {conversation.draw}" if conversation.draw else ""
    scores = ", ".join(f"{name} = {_score_text(value)}" for name, value in conversation.scores.items())
    details = "; ".join(part for part in (conversation.detail.partition("\n")[0], scores) if part)
    return f"{conversation.arm}{draw}: {conversation.state}{f' ({details})' if details else ''}"


def _score_text(value: bool | float | str | None) -> str:
    if value is None:
        return "not applicable"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _turns(conversation: Conversation, sample_input: Any, reasoning: bool) -> Iterator[str]:
    if not conversation.calls:
        yield f"{_INDENT}(the messages of this reply were not recorded; this is the sample's input)"
        yield from _block("input", sample_input)
        yield from _block("reply", conversation.reply)
    before: list[Any] = []
    several = max((call.call for call in conversation.calls if not call.is_judge), default=0) > 1
    for call in conversation.calls:
        if call.is_judge:
            yield f"{_INDENT}{call.member}{_about(call)}"
            for message in _as_list(call.messages):
                yield from _message(message)
        if not call.member:
            messages = _as_list(call.messages)
            if several or call.parameters or call.paid_by is not None:
                yield f"{_INDENT}call {call.call}{_about(call)}"
            # Each call sends the whole conversation again: only its new messages are printed.
            new = messages[len(before) :] if messages[: len(before)] == before else messages
            for message in new:
                yield from _message(message)
            before = messages
            # The next call repeats this reply as an assistant message, which is printed below already.
            if call.text is not None:
                before = [*messages, {"role": "assistant", "content": call.text}]
        yield from _reply(call, reasoning)


def _about(call: StoredCall) -> str:
    """Return the call's own parameters and the run that paid for it, in parentheses."""
    parts = [f"{name}={value}" for name, value in (call.parameters or {}).items()]
    if call.paid_by is not None:
        parts.append(f"paid by run {call.paid_by}" if call.paid_by else "paid by an earlier run")
    return f" ({', '.join(parts)})" if parts else ""


def _as_list(messages: Any) -> list[Any]:
    if isinstance(messages, list) and all(isinstance(message, Mapping) for message in messages):
        return messages
    return [{"role": "user", "content": messages}]


def _message(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    role = str(message.get("role", "message"))
    if content is not None or not rest:
        yield from _block(role, content)
    if rest:
        yield from _block(role, rest)


def _reply(call: StoredCall, reasoning: bool) -> Iterator[str]:
    name = "assistant" if call.is_judge or not call.member else call.member
    if call.text is None:
        yield from _block("no reply", call.error or "cancelled")
        return
    if call.reasoning and reasoning:
        yield from _block("reasoning", call.reasoning)
    elif call.reasoning:
        yield from _block("reasoning", f"({quantity(len(call.reasoning), 'character')}; --reasoning prints them)")
    yield from _block(name, call.text[call.think :].lstrip() if call.reasoning else call.text)


def _block(name: str, value: Any) -> Iterator[str]:
    """Yield a value behind its name, further lines below the first."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    first, *more = text.splitlines() or [""]
    yield f"{_INDENT}{name:<{_ROLE}} {first}"
    for line in more:
        yield f"{_INDENT}{'':<{_ROLE}} {line}"
