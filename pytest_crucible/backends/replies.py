"""Validates a backend's replies, and cuts those that are too long."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import BackendError, SpecError, describe_type

# The largest whole number up to which doubles, as in databases and JSON, are exact.
MOST_TOKENS = 2**53


def validate_reply(reply: Any) -> Reply:
    """Return the reply itself. Raises BackendError if it is not a valid Reply."""
    if not isinstance(reply, Reply):
        raise BackendError(f"the backend returned {describe_type(reply)}: generate() must return a Reply")
    if wrong := find_flaw(reply):
        raise BackendError(f"the backend returned a Reply that {wrong}")
    return reply


def find_flaw(reply: Reply) -> str:
    """Return which field is invalid and what was expected; empty for a valid reply.

    >>> find_flaw(Reply(text="4", output_tokens=-1))
    'has output_tokens -1: expected a whole number from 0, or None'
    """
    for name, fits, expected in _FIELDS:
        if not fits(value := getattr(reply, name)):
            return f"has {name} {value!r:.60}: expected {expected}"
    return ""


def is_count(value: Any) -> bool:
    """Return whether a value is a number of tokens, or None (unknown)."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_TOKENS)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < math.inf)


# A bool is an int in Python and NaN a float: both would pass a plain isinstance.
_KINDS = (
    (("text", "finish", "model"), _is_text, "a text"),
    (("input_tokens", "output_tokens"), is_count, "a whole number from 0, or None"),
    (("latency_s", "first_token_s", "cost_usd"), _is_amount, "a number from 0, or None"),
)
_FIELDS = tuple((name, fits, expected) for names, fits, expected in _KINDS for name in names)


# A megabyte is a quarter of a million tokens, more than models write; a server that repeats itself has no end.
MAX_REPLY_BYTES = 1_000_000
# Bytes of a JSON body for each byte of its reply: with `n` choices, and log-probabilities of alternatives, many.
_BODY_OVERHEAD = 64
# In a stream each token of a few letters comes in an event of 300 bytes; but it is not held.
_STREAM_OVERHEAD = 256
# An error page fits, however short the replies.
_SMALLEST_BODY = 1_000_000


class ReplyLimit(Wrapper):
    """The innermost wrapper: no other one, and not the run store, sees more than the limit."""

    def __init__(self, inner: Backend, limit: int) -> None:
        super().__init__(inner)
        self.identity = inner.identity + "".join(limit_facts(limit))
        self._limit = limit

    async def generate(self, request: Request) -> Reply:
        reply = await self.inner.generate(request)
        # What is not a Reply is reported by the wrapper that validates them.
        return cut_reply(reply, self._limit) if isinstance(reply, Reply) else reply


def read_reply_limit(adapter: Adapter) -> int:
    """Read `max_reply_bytes` of an adapter. Raises SpecError."""
    limit: Any = adapter.asking.get("max_reply_bytes", MAX_REPLY_BYTES)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise SpecError(
            f"adapter {adapter.name!r} has max_reply_bytes = {limit!r}: "
            f"expected the bytes after which a reply is cut, for example {MAX_REPLY_BYTES}"
        )
    return limit


def limit_facts(limit: int) -> tuple[str, ...]:
    """Return what a limit adds to the identity of a backend: with another limit, replies may differ."""
    return () if limit == MAX_REPLY_BYTES else (f" max_reply_bytes {limit}",)


def longest_body(max_reply_bytes: int, *, stream: bool = False) -> int:
    """Return the number of bytes after which reading a response stops.

    >>> longest_body(1_000_000)
    64000000
    """
    overhead = _STREAM_OVERHEAD if stream else _BODY_OVERHEAD
    return max(overhead * max_reply_bytes, _SMALLEST_BODY)


def cut_reply(reply: Reply, limit: int) -> Reply:
    """Return the reply, cut where its reasoning, text and tool calls together exceed the limit.

    >>> reply = cut_reply(Reply(text="four", reasoning="2 + 2"), 7)
    >>> reply.text, reply.reasoning, reply.finish
    ('fo', '2 + 2', 'length')
    """
    if reply.alternatives:
        reply = replace(reply, alternatives=tuple(cut_reply(other, limit) for other in reply.alternatives))
    if not isinstance(reply.text, str) or _size(reply) <= limit:
        return reply
    reasoning = _cut(reply.reasoning, limit)
    text = _cut(reply.text, limit - bytes_of(reasoning)) if reasoning == reply.reasoning else ""
    # Half a call cannot be read.
    return replace(reply, text=text, reasoning=reasoning, tool_calls=(), finish="length")


def bytes_of(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _size(reply: Reply) -> int:
    calls = json.dumps(reply.tool_calls, ensure_ascii=False, default=repr) if reply.tool_calls else ""
    return bytes_of(reply.reasoning) + bytes_of(reply.text) + bytes_of(calls)


def _cut(text: str, limit: int) -> str:
    """Return the longest beginning of the text that has at most `limit` bytes.

    >>> _cut("a\\u00e9", 2)
    'a'
    """
    data = text[: limit + 1].encode("utf-8", "surrogatepass")
    end = min(limit, len(data))
    # A byte of the form 10xxxxxx continues a character.
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")
