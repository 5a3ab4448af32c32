"""The Backend protocol, the only way to call a model, the base class of wrappers, and what a valid reply is."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, SpecError, describe_type

T = TypeVar("T")


@runtime_checkable
class Backend(Protocol):
    """Answers requests for one adapter.

    `generate` makes one attempt. It raises `Retryable` when a retry may succeed, another `BackendError` when this reply
    cannot be had (the sample is lost) and `Refused` when no reply ever can (the experiment stops). It runs on the sampling
    loop and must not block it.
    """

    identity: str
    """Changes when and only when replies may change: a checkpoint, a file's hash, a model name and URL."""
    simulated: bool
    """True when replies do not come from a model; every verdict reports it."""

    async def generate(self, request: Request) -> Reply: ...


@runtime_checkable
class Remote(Protocol):
    """A backend that calls a server. Backends of one server share its limits, and its model has a price."""

    server: str
    """The base URL and a digest of the key, never the key: two backends of one server and one key share a limit."""
    model: str


def system_prompt(backend: Backend) -> str:
    """Return the `system` prompt that a backend sends before the messages of each request; empty if it has none."""
    # Read for each unit: a runtime-checkable Protocol would take 10 us to look at the backend's attributes.
    return str(getattr(backend, "system", ""))


@runtime_checkable
class Closeable(Protocol):
    """A backend with connections, which is closed on the sampling loop when the session ends."""

    async def close(self) -> None: ...


@runtime_checkable
class Instant(Protocol):
    """A backend that computes its replies faster than they are found in the reply cache: they are not cached."""

    is_instant: bool


@runtime_checkable
class KnowsItsSamples(Protocol):
    """A backend that lists the samples that it can answer."""

    def samples(self) -> frozenset[str]: ...


@runtime_checkable
class ScoresPrompts(Protocol):
    """A backend that returns how probable a text is to its model."""

    async def score_prompt(self, text: str) -> Sequence[float]:
        """Return the natural log-probability of each token of a text but the first. Raises BackendError."""


EMBEDDINGS = "embeddings"
"""The parameter of a request for the vectors of its texts, which are the `value` of the reply."""


@runtime_checkable
class Embeds(Protocol):
    """A backend whose `generate` answers requests with `EMBEDDINGS`."""

    async def embed(self, request: Request) -> Reply:
        """Return the vectors of a text, or of several. Raises BackendError."""


class Wrapper:
    """A Backend around another one: it changes when and how often requests are sent; the reply limit alone cuts replies."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.simulated = inner.simulated
        self.system = system_prompt(inner)

    async def generate(self, request: Request) -> Reply:
        return await self.inner.generate(request)

    async def close(self) -> None:
        """Close the backend inside, if it has connections."""
        if isinstance(self.inner, Closeable):
            await self.inner.close()


def find_innermost(backend: Backend) -> Backend:
    while isinstance(backend, Wrapper):
        backend = backend.inner
    return backend


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite number. A bool, which is an int in Python, does not count."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def read_setting(adapter: Adapter, name: str, default: T, fits: Callable[[Any], bool], expected: str) -> T:
    """Read a setting of an adapter's requests. Raises SpecError."""
    value: T = adapter.asking.get(name, default)
    if not fits(value):
        raise SpecError(f"adapter {adapter.name!r} has {name} = {value!r}: expected {expected}")
    return value


def read_stops(value: Any) -> tuple[str, ...] | None:
    """Return the texts at which a reply stops: one, or a list; None unless all are texts that are not empty."""
    several = [value] if isinstance(value, str) else value
    is_list = isinstance(several, list | tuple) and all(isinstance(text, str) and text for text in several)
    return tuple(several) if is_list else None


CHOICES = "choices"
"""The parameter of a request that scores choices and generates nothing."""


async def score_choices(backend: ScoresPrompts, request: Request) -> Reply:
    """Return the most probable choice as the text, and the probabilities of all choices, which add up to 1, as the value.

    The log-probability of a choice is that of the prompt followed by it, less that of the prompt. Raises Refused for an invalid
    request, and BackendError.
    """
    prompt, choices = request.input, request.parameters[CHOICES]
    check_choices(request.sample, prompt, choices)
    started = time.perf_counter()
    # The same for all choices, so that it changes no probability; it keeps the sums small.
    before = math.fsum(await backend.score_prompt(prompt))
    logprobs = [math.fsum(await backend.score_prompt(prompt + choice)) - before for choice in choices]
    most = max(logprobs)
    weights = [math.exp(logprob - most) for logprob in logprobs]
    total = math.fsum(weights)
    value = {choice: weight / total for choice, weight in zip(choices, weights, strict=True)}
    return Reply(
        text=max(value, key=lambda choice: value[choice]).strip(), value=value, latency_s=time.perf_counter() - started
    )


def check_choices(sample: str, prompt: Any, choices: Any) -> None:
    """Raise Refused unless the prompt is a text and there are two or more choices, all different texts."""
    is_list = isinstance(choices, list | tuple) and all(isinstance(choice, str) and choice for choice in choices)
    if not is_list or len(set(choices)) != len(choices) or len(choices) < 2:
        raise Refused(f"sample {sample!r:.200} has choices={choices!r:.100}; expected two or more different texts")
    if not isinstance(prompt, str):
        raise Refused(
            f"sample {sample!r:.200}: choices are scored after a text, not {describe_type(prompt)}; join the messages"
        )


def derived_seed(seed: int, sample: str, repeat: int, call: int, tokens: Sequence[int] = ()) -> int:
    """Return a seed of 31 bits. Each call's draws are independent of every other request and of the order of requests.

    >>> derived_seed(0, "q1", 0, 1) == derived_seed(0, "q1", 0, 1) != derived_seed(0, "q1", 1, 1)
    True
    """
    parts = json.dumps([seed, sample, repeat, call, *tokens]).encode()
    return int.from_bytes(hashlib.blake2b(parts, digest_size=4).digest(), "little") >> 1


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
    # By kind first: nearly every reply is valid, and this takes a third of the time.
    has_texts = {*map(type, _TEXTS(reply))} == {str}
    if has_texts and all(map(is_count, _COUNTS(reply))) and all(map(_is_amount, _AMOUNTS(reply))):
        return ""
    for name, fits, expected in _FIELDS:
        if not fits(value := getattr(reply, name)):
            return f"has {name} {value!r:.60}: expected {expected}"
    return ""


def is_count(value: Any) -> bool:
    """Return whether a value is a number of tokens, or None (unknown)."""
    return value is None or (is_whole(value) and 0 <= value < MOST_TOKENS)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < math.inf)


_NAMES_OF_TEXTS = ("text", "finish", "model", "system_fingerprint", "server")
_NAMES_OF_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens")
_NAMES_OF_AMOUNTS = ("latency_s", "first_token_s", "cost_usd")
_TEXTS, _COUNTS, _AMOUNTS = (attrgetter(*names) for names in (_NAMES_OF_TEXTS, _NAMES_OF_COUNTS, _NAMES_OF_AMOUNTS))
_FIELDS = (
    *((name, _is_text, "a text") for name in _NAMES_OF_TEXTS),
    *((name, is_count, "a whole number from 0, or None") for name in _NAMES_OF_COUNTS),
    *((name, _is_amount, "a number from 0, or None") for name in _NAMES_OF_AMOUNTS),
)


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
    expected = f"the bytes after which a reply is cut, for example {MAX_REPLY_BYTES}"
    return read_setting(
        adapter, "max_reply_bytes", MAX_REPLY_BYTES, lambda limit: is_whole(limit) and limit >= 1, expected
    )


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
    return bytes_of(reply.reasoning + reply.text + calls)


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
