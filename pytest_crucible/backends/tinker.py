"""Answers from Tinker: a Backend over the `SamplingClient` of the official SDK, hosted or local.

`TinkerBackend` gets the client; who opens the service, and with which key, is no matter of it. The SDK is imported when the
first parameters are read.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pytest_crucible.errors import BackendError, Refused
from pytest_crucible.records import Reply, Request

PARAMETERS = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed")
"""What `parameters` of an adapter may say."""
LOOK_S = 0.5
"""How often a request that waits looks whether the service is still there: the SDK would go on trying for minutes."""
_FINAL = (401, 402, 403, 404)
"""HTTP statuses of what will not be answered later either: a bad key, no such checkpoint."""


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
    """

    simulated = False

    def __init__(
        self,
        client: SamplingClient,
        tokenizer: Tokenizer,
        *,
        identity: str,
        seed: int | None = None,
        check: Callable[[], None] = lambda: None,
        hide: Callable[[str], str] = str,
    ) -> None:
        """`check` raises BackendError when the service is gone; `hide` takes keys out of a sentence."""
        self.identity = identity
        self._client = client
        self._tokenizer = tokenizer
        self._seed = seed
        self._check = check
        self._hide = hide
        self._calls: Counter[tuple[str, int]] = Counter()

    async def generate(self, request: Request) -> Reply:
        self._check()
        tokens = prompt_tokens(request.input, self._tokenizer)
        params = sampling_params({**request.parameters, "seed": self._seed_of(request)})
        try:
            response = await self._answer(self._client.sample(_sdk().ModelInput.from_ints(tokens), 1, params))
        except BackendError:
            raise
        except Exception as error:
            kind = Refused if getattr(error, "status_code", None) in _FINAL else BackendError
            raise kind(self._hide(f"Tinker gave no answer: {sentence(error)}")) from None
        (sequence,) = response.sequences
        answer = list(sequence.tokens)
        text = self._tokenizer.decode(answer, skip_special_tokens=True)
        return Reply(
            text=_without_stop(text, params.stop),
            input_tokens=len(tokens),
            output_tokens=len(answer),
            finish=sequence.stop_reason,
        )

    async def _answer(self, future: Any) -> Any:
        """Wait without blocking, and not for a service that is gone."""
        waiting = asyncio.wrap_future(future.future() if hasattr(future, "future") else future)
        try:
            while not (await asyncio.wait((waiting,), timeout=LOOK_S))[0]:
                self._check()
            return waiting.result()
        finally:
            waiting.cancel()

    def _seed_of(self, request: Request) -> int | None:
        seed = request.parameters.get("seed", self._seed)
        if seed is None:
            return None
        place = (request.sample, request.epoch)
        self._calls[place] += 1
        return derived_seed(seed, *place, self._calls[place])


def derived_seed(seed: int, sample: str, epoch: int, call: int) -> int:
    """A seed of 31 bits: one call's draws say nothing about another's, and do not depend on the order of samples.

    >>> derived_seed(0, "q1", 0, 1) == derived_seed(0, "q1", 0, 1) != derived_seed(0, "q1", 1, 1)
    True
    """
    said = json.dumps([seed, sample, epoch, call]).encode()
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


def prompt_tokens(given: Any, tokenizer: Tokenizer) -> list[int]:
    """Token ids of an input. Raises Refused for one that is neither text nor messages nor tokens."""
    if isinstance(given, str):
        return list(tokenizer.encode(given))
    if isinstance(given, Sequence) and given and all(type(one) is int for one in given):
        return list(given)
    if isinstance(given, Sequence) and given and all(isinstance(one, Mapping) for one in given):
        return _chat_tokens(given, tokenizer)
    raise Refused(
        f"Tinker cannot be asked a {type(given).__name__}: give a text, messages with role and content, or token ids"
    )


def _chat_tokens(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> list[int]:
    if getattr(tokenizer, "chat_template", None) is None:
        raise Refused("this model has no chat template, so that it cannot be asked messages: give a text")
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))  # the template has them already


def _sdk() -> Any:
    return importlib.import_module("tinker")


def _without_stop(text: str, stop: Any) -> str:
    """Tinker leaves the stop string at the end of what it stopped."""
    for one in [stop] if isinstance(stop, str) else stop or ():
        if isinstance(one, str) and one and text.endswith(one):
            return text.removesuffix(one)
    return text


def sentence(error: BaseException) -> str:
    """What an error of the SDK says, without its wrapping."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        for name in ("detail", "error", "message"):
            if isinstance(body.get(name), str):
                return str(body[name])
    said = str(getattr(error, "message", "") or error).strip()
    return said.splitlines()[0] if said else type(error).__name__
