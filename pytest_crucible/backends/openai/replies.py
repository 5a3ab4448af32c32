"""From a server's JSON to a Reply."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytest_crucible.backends.plausible import is_count
from pytest_crucible.errors import Refused, Retryable
from pytest_crucible.records import Reply

_FINISH = {
    "function_call": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
}
"""Other servers' words, in OpenAI's."""


_BROKEN_OFF = ("abort", "error")
_MOST = 16
"""Characters of a word that nobody knows."""


def reply_of(answer: Mapping[str, Any], *, seconds: float, first_token_s: float | None, where: str) -> Reply:
    """The first choice, with the others as alternatives. Raises Retryable for an answer that holds none."""
    try:
        choices = sorted(answer["choices"], key=lambda choice: choice.get("index") or 0)
        first, *others = [_said(choice) for choice in choices]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Retryable(f"{where} answered without a choice", kind="garbage") from None
    usage = answer.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    return Reply(
        **first,
        input_tokens=_whole(usage.get("prompt_tokens")),
        output_tokens=_whole(usage.get("completion_tokens")),
        latency_s=seconds,
        first_token_s=first_token_s,
        alternatives=tuple(Reply(**other) for other in others),
        model=str(answer.get("model") or ""),
    )


def check_choices(reply: Reply, wanted: Any, where: str) -> None:
    """Raises Refused for a server that gives one choice, however many are wanted, Retryable for another that gives too few."""
    count = 1 + len(reply.alternatives)
    if wanted is None or count >= wanted:
        return
    said = f"{where} answered with {count} of {wanted} choices"
    if count > 1:
        raise Retryable(said, kind="half")
    raise Refused(f"{said}: it does not know the parameter n, so leave it out; epochs = {wanted} asks that often")


def _said(choice: Mapping[str, Any]) -> dict[str, Any]:
    """What a choice says of a Reply."""
    message = choice.get("message")
    said = choice["text"] if message is None else message
    finish = choice.get("finish_reason") or "stop"
    if finish in _BROKEN_OFF:
        raise Retryable(f"the server broke off its own answer ({finish})", kind="half")
    calls = [dict(call) for call in (message.get("tool_calls") if message else None) or ()]
    return {
        "text": said if isinstance(said, str) else _text(said),
        "finish": _FINISH.get(finish, finish[:_MOST]),
        "logprobs": _logprobs(choice.get("logprobs")),
        "tool_calls": tuple(calls),
    }


def _text(message: Mapping[str, Any]) -> str:
    """What it says, or why it will not say it; nothing, where it only wants a tool."""
    content = message.get("content")
    if content is None:
        content = message.get("refusal") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def _logprobs(told: Any) -> tuple[float, ...] | None:
    """Of the chosen tokens, in either endpoint's form; None where a server tells none."""
    if not told:
        return None
    values = [one.get("logprob") for one in told["content"]] if told.get("content") else told.get("token_logprobs")
    return tuple(float(value) for value in values or () if value is not None and not math.isnan(value)) or None


def _whole(given: Any) -> int | None:
    """A number of tokens, where that is what a server tells."""
    return given if is_count(given) else None
