"""The Backend protocol, the only way to call a model, and the base class of wrappers, which are backends themselves."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import Refused, describe_type


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
        """Return the natural log-probability of each token of a text but the first, given those before it.

        Raises BackendError for a text that does not fit into the model's context, and where the server returns none.
        """


class Wrapper:
    """A Backend around another one. A wrapper changes when and how often requests are sent, never the replies.

    The exception is the reply limit, which cuts a reply and changes the identity.
    """

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
    """Return the backend inside all wrappers."""
    while isinstance(backend, Wrapper):
        backend = backend.inner
    return backend


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
