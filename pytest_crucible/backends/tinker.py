"""Answers from Tinker: a Backend over the `SamplingClient` of the official SDK, hosted or local.

`TinkerBackend` gets the client; who opens the service, and with which key, is no matter of it. The SDK is imported when the
first parameters are read.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pytest_crucible.backends.tinker_errors import is_too_long, understood
from pytest_crucible.errors import BackendError, Refused
from pytest_crucible.records import Reply, Request, TrainingResult

PARAMETERS = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed")
"""What `parameters` of an adapter may say."""
LOOK_S = 0.5
"""How often a request that waits looks whether the service is still there: the SDK would go on trying for minutes."""


class SamplingClient(Protocol):
    """What is used of `tinker.SamplingClient`."""

    def sample(self, prompt: Any, num_samples: int, sampling_params: Any) -> Any: ...


class Tokenizer(Protocol):
    """What is used of a tokenizer, transformers' or another one. A chat template is used where there is one."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str: ...


class TinkerBackend:
    """Asks one checkpoint or base model.

    An input is a text, a list of messages (`{"role": ..., "content": ...}`, through the tokenizer's chat template) or a list
    of token ids. With a `seed` every sample, repeat and call draws with a seed of its own, which follows from it.

    A prompt that leaves no room in the context is answered with nothing, cut by length: that the model cannot read it is the
    model's own failure, not the world's, and asking again would change nothing. Where the service has told its `context`
    nothing is sent for that.
    """

    simulated = False

    def __init__(
        self,
        client: SamplingClient,
        tokenizer: Tokenizer,
        *,
        identity: str,
        seed: int | None = None,
        context: int | None = None,
        server: str = "",
        model: str = "",
        training: TrainingResult | None = None,
        check: Callable[[float], None] = lambda waited_s: None,
        hide: Callable[[str], str] = str,
    ) -> None:
        """`check` is told for how long was waited, and raises BackendError when the service is gone; `hide` takes keys out."""
        self.identity, self.server, self.model = identity, server, model
        self.training = training
        self._client = client
        self._tokenizer = tokenizer
        self._seed = seed
        self._context = context
        self._check = check
        self._hide = hide

    async def generate(self, request: Request) -> Reply:
        self._check(0.0)
        tokens = prompt_tokens(request.input, self._tokenizer)
        params = sampling_params({**request.parameters, "seed": self._seed_of(request, tokens)})
        if self._context is not None and len(tokens) >= self._context:
            return self._unread(tokens)
        started = time.perf_counter()
        try:
            response = await self._answer(self._client.sample(_sdk().ModelInput.from_ints(tokens), 1, params))
            (sequence,) = response.sequences
            answer = list(sequence.tokens)
            text = self._tokenizer.decode(answer, skip_special_tokens=True)
        except BackendError:
            raise
        except Exception as error:
            if is_too_long(error):
                return self._unread(tokens)
            raise understood(error, self._hide) from None
        return Reply(
            text=_without_stop(text, params.stop),
            input_tokens=len(tokens),
            output_tokens=len(answer),
            latency_s=time.perf_counter() - started,
            finish=sequence.stop_reason,
            logprobs=tuple(map(float, getattr(sequence, "logprobs", None) or ())) or None,
            model=self.model,
        )

    def _unread(self, tokens: Sequence[int]) -> Reply:
        return Reply(
            text="", input_tokens=len(tokens), output_tokens=0, latency_s=0.0, finish="length", model=self.model
        )

    async def _answer(self, future: Any) -> Any:
        """Wait without blocking, and not for a service that is gone."""
        waiting = asyncio.wrap_future(future.future() if hasattr(future, "future") else future)
        started = time.monotonic()
        try:
            while not (await asyncio.wait((waiting,), timeout=LOOK_S))[0]:
                self._check(time.monotonic() - started)
            return waiting.result()
        finally:
            waiting.cancel()

    def _seed_of(self, request: Request, tokens: Sequence[int]) -> int | None:
        seed = request.parameters.get("seed", self._seed)
        return None if seed is None else derived_seed(seed, request.sample, request.epoch, request.call, tokens)


def derived_seed(seed: int, sample: str, epoch: int, call: int, tokens: Sequence[int] = ()) -> int:
    """A seed of 31 bits: one call's draws say nothing about another's, and do not depend on what else is asked, or when.

    >>> derived_seed(0, "q1", 0, 1) == derived_seed(0, "q1", 0, 1) != derived_seed(0, "q1", 1, 1)
    True
    """
    said = json.dumps([seed, sample, epoch, call, *tokens]).encode()
    return int.from_bytes(hashlib.blake2b(said, digest_size=4).digest(), "little") >> 1


def sampling_params(parameters: Mapping[str, Any]) -> Any:
    """The SDK's SamplingParams, which itself takes any name without a word. Raises Refused for what it cannot mean."""
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise Refused(f"Tinker has no parameter {unknown[0]!r}: it takes {', '.join(PARAMETERS)}")
    try:
        return _sdk().SamplingParams(**{name: value for name, value in parameters.items() if value is not None})
    except ValueError as error:
        names = {str(one["loc"][0]) for one in error.errors()} if hasattr(error, "errors") else set(parameters)
        wrong = ", ".join(f"{name} = {parameters.get(name)!r}" for name in sorted(names))
        raise Refused(f"Tinker cannot sample with {wrong}: that is no such value") from None


def prompt_tokens(given: Any, tokenizer: Any) -> list[int]:
    """Token ids of an input; of an empty text its end token, since something has to be read.

    Raises Refused for an input that is neither text nor messages nor tokens, BackendError for one that cannot be encoded.
    """
    if isinstance(given, Sequence) and given and all(type(one) is int for one in given):
        return list(given)
    is_chat = not isinstance(given, str) and isinstance(given, Sequence) and given
    if not isinstance(given, str) and not (is_chat and all(isinstance(one, Mapping) for one in given)):
        raise Refused(
            f"Tinker cannot be asked a {type(given).__name__}: give a text, messages with role and content, or token ids"
        )
    try:
        tokens = _chat_tokens(given, tokenizer) if is_chat else list(tokenizer.encode(given))
    except ValueError as error:
        raise BackendError(f"the prompt cannot be encoded: {error}") from None
    end = getattr(tokenizer, "eos_token_id", None)
    return tokens or ([end] if end is not None else [])


def _chat_tokens(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> list[int]:
    if getattr(tokenizer, "chat_template", None) is None:
        raise Refused("this model has no chat template, so that it cannot be asked messages: give a text")
    try:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    except TypeError as error:
        raise Refused(f"Tinker cannot be asked these messages: {error}") from None
    except ImportError as error:
        raise Refused(f'chat templates need jinja2: pip install "pytest-crucible[tinker]" ({error})') from None
    except Exception as error:  # what a template raises by itself: of roles that do not alternate, for instance
        raise BackendError(f"the model's chat template cannot render these messages: {error}") from None
    return list(tokenizer.encode(text, add_special_tokens=False))  # the template has them already


def _sdk() -> Any:
    return importlib.import_module("tinker")


def _without_stop(text: str, stop: Any) -> str:
    """Tinker leaves the stop string at the end of what it stopped."""
    for one in [stop] if isinstance(stop, str) else stop or ():
        if isinstance(one, str) and one and text.endswith(one):
            return text.removesuffix(one)
    return text
