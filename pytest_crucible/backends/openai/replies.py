"""Replies from a server's JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytest_crucible.backends.validate_reply import is_count
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import Refused, Retryable

# Finish reasons of other servers, in OpenAI's terms.
_FINISH = {
    "function_call": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
}


_ABORTED = ("abort", "error")
# Characters kept of an unknown finish reason.
_MAX_FINISH = 16


def parse_reply(answer: Mapping[str, Any], *, seconds: float, first_token_s: float | None, where: str) -> Reply:
    """Return the first choice, with the others as alternatives. Raises Retryable if the response has no choice."""
    try:
        choices = sorted(answer["choices"], key=lambda choice: choice.get("index") or 0)
        first, *others = [_choice_fields(choice) for choice in choices]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Retryable(f"{where} responded without a choice", kind="garbage") from None
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


def check_choices(reply: Reply, expected: Any, where: str) -> None:
    """Check that there are as many choices as requested.

    Raises Refused for a server that returned a single one, Retryable for one that returned too few.
    """
    count = 1 + len(reply.alternatives)
    if expected is None or count >= expected:
        return
    message = f"{where} returned {count} of {expected} choices"
    if count > 1:
        raise Retryable(message, kind="half")
    raise Refused(f"{message}: it ignores the parameter n; remove it, and set epochs = {expected} instead")


def _choice_fields(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a Reply that a choice contains."""
    message = choice.get("message")
    content = choice["text"] if message is None else message
    finish = choice.get("finish_reason") or "stop"
    if finish in _ABORTED:
        raise Retryable(f"the server broke off its response ({finish})", kind="half")
    calls = [dict(call) for call in (message.get("tool_calls") if message else None) or ()]
    return {
        "text": content if isinstance(content, str) else _text(content),
        "finish": _FINISH.get(finish, finish[:_MAX_FINISH]),
        "logprobs": _logprobs(choice.get("logprobs")),
        "tool_calls": tuple(calls),
        "reasoning": _reasoning(message or {}),
    }


def _reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning text beside the answer: `reasoning_content` of vLLM and DeepSeek, `reasoning` of others."""
    text = message.get("reasoning_content") or message.get("reasoning")
    return text if isinstance(text, str) else ""


def _text(message: Mapping[str, Any]) -> str:
    """Return the message's text, or its refusal; empty if it only calls a tool."""
    content = message.get("content")
    if content is None:
        content = message.get("refusal") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def _logprobs(logprobs: Any) -> tuple[float, ...] | None:
    """Return the chosen tokens' log-probabilities in either endpoint's form; None if there are none."""
    if not logprobs:
        return None
    values = (
        [token.get("logprob") for token in logprobs["content"]]
        if logprobs.get("content")
        else logprobs.get("token_logprobs")
    )
    return tuple(float(value) for value in values or () if value is not None and not math.isnan(value)) or None


def _whole(value: Any) -> int | None:
    """Return a number of tokens, or None if the server sent something else."""
    return value if is_count(value) else None
