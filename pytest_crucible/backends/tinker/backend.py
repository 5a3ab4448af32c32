"""The Tinker backend: a Backend over the `SamplingClient` of the official SDK, hosted or local.

`TinkerBackend` gets an open client and knows neither service nor key. The SDK is imported when the first parameters are read.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pytest_crucible.backends.choices import CHOICES, score_choices
from pytest_crucible.backends.queue_states import QueueState
from pytest_crucible.backends.sample_clock import return_time
from pytest_crucible.backends.tinker.errors import is_too_long, translate_error
from pytest_crucible.backends.tinker.prompts import prompt_tokens
from pytest_crucible.records import Reply, Request, TrainingResult
from pytest_crucible.records.errors import BackendError, Refused

PARAMETERS = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed")
"""The names that `parameters` of an adapter may have."""
LOOK_S = 0.5
"""Time between checks of the service while a request waits: the SDK itself would retry for minutes."""


class SamplingClient(Protocol):
    """The part of `tinker.SamplingClient` that is used."""

    def sample(self, prompt: Any, num_samples: int, sampling_params: Any) -> Any: ...

    def compute_logprobs(self, prompt: Any) -> Any: ...


class Tokenizer(Protocol):
    """The methods of a tokenizer that the backend calls; a chat template is optional."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str: ...


class TinkerBackend:
    """Samples from one checkpoint or base model.

    An input is a text, a list of messages (`{"role": ..., "content": ...}`, through the tokenizer's chat template) or a list
    of token ids. With a `seed`, every sample, repeat and call has a seed of its own that is derived from it.

    The reply to a prompt that fills the context is empty and cut by length: that the model cannot read the prompt is the
    model's own failure, and a retry would not change it. Where the service reports its `context`, such a prompt is not sent.
    """

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
        step: int | None = None,
        trained_on: Mapping[str, str] | None = None,
        simulated: bool = False,
        check: Callable[[float], None] = lambda waited_s: None,
        queue: QueueState | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        """`simulated` is True where a local server lets another model answer under this name.

        `check` takes the seconds waited so far and raises BackendError when the service is gone; a pause of its `queue` is not
        the time of the samples; `hide` removes keys.
        """
        self.identity, self.server, self.model = identity, server, model
        self.training, self.step, self.simulated = training, step, simulated
        self.trained_on = trained_on or {}
        self._client = client
        self._tokenizer = tokenizer
        self._seed = seed
        self._context = context
        self._check, self._queue = check, queue or QueueState()
        self._hide = hide

    @property
    def sampling_client(self) -> SamplingClient:
        """The SDK's client of the model, for evaluators that send requests of their own."""
        return self._client

    async def generate(self, request: Request) -> Reply:
        # A service that is known to be gone fails at once, without a request.
        self._check(0.0)
        if CHOICES in request.parameters:
            return await score_choices(self, request)
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
            # Without the SDK's traceback, whose frames may hold the key.
            raise translate_error(error, self._hide) from None
        return Reply(
            text=_without_stop(text, params.stop),
            input_tokens=len(tokens),
            output_tokens=len(answer),
            latency_s=time.perf_counter() - started,
            finish=sequence.stop_reason,
            logprobs=tuple(map(float, getattr(sequence, "logprobs", None) or ())) or None,
            model=self.model,
        )

    async def score_prompt(self, text: str) -> Sequence[float]:
        """Return the log-probability of each token but the first. Raises BackendError."""
        self._check(0.0)
        tokens = list(self._tokenizer.encode(text))
        try:
            scored = await self._answer(self._client.compute_logprobs(_sdk().ModelInput.from_ints(tokens)))
        except BackendError:
            raise
        except Exception as error:
            # Without the SDK's traceback, whose frames may hold the key.
            raise translate_error(error, self._hide) from None
        return [float(logprob) for logprob in list(scored)[1:]]

    def _unread(self, tokens: Sequence[int]) -> Reply:
        return Reply(
            text="", input_tokens=len(tokens), output_tokens=0, latency_s=0.0, finish="length", model=self.model
        )

    async def _answer(self, future: Any) -> Any:
        """Wait for a reply without blocking the loop. Raises BackendError when the service is gone."""
        waiting = asyncio.wrap_future(future.future() if hasattr(future, "future") else future)
        started = time.monotonic()
        try:
            while not (await asyncio.wait((waiting,), timeout=LOOK_S))[0]:
                self._check(time.monotonic() - started)
                if self._queue.pause:
                    return_time(LOOK_S)
            answer = waiting.result()
            self._queue.report("")
            return answer
        finally:
            # Also after an interrupt: the reply is not needed any more.
            waiting.cancel()

    def _seed_of(self, request: Request, tokens: Sequence[int]) -> int | None:
        seed = request.parameters.get("seed", self._seed)
        return None if seed is None else derived_seed(seed, request.sample, request.repeat, request.call, tokens)


def derived_seed(seed: int, sample: str, repeat: int, call: int, tokens: Sequence[int] = ()) -> int:
    """Return a seed of 31 bits. Each call's draws are independent of every other request and of the order of requests.

    >>> derived_seed(0, "q1", 0, 1) == derived_seed(0, "q1", 0, 1) != derived_seed(0, "q1", 1, 1)
    True
    """
    parts = json.dumps([seed, sample, repeat, call, *tokens]).encode()
    return int.from_bytes(hashlib.blake2b(parts, digest_size=4).digest(), "little") >> 1


def sampling_params(parameters: Mapping[str, Any]) -> Any:
    """Return the SDK's SamplingParams, which itself accepts unknown names silently. Raises Refused for invalid parameters."""
    # A misspelt parameter would be dropped by the SDK, and the run would measure another setting.
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise Refused(f"Tinker has no parameter {unknown[0]!r}: it takes {', '.join(PARAMETERS)}")
    try:
        return _sdk().SamplingParams(**{name: value for name, value in parameters.items() if value is not None})
    except ValueError as error:
        names = {str(problem["loc"][0]) for problem in error.errors()} if hasattr(error, "errors") else set(parameters)
        wrong = ", ".join(f"{name} = {parameters.get(name)!r}" for name in sorted(names))
        raise Refused(f"Tinker cannot sample with {wrong}: give a valid value") from None


def _sdk() -> Any:
    return importlib.import_module("tinker")


def _without_stop(text: str, stop: Any) -> str:
    """Cut the stop string, which Tinker leaves at the end of a reply."""
    for stop_text in [stop] if isinstance(stop, str) else stop or ():
        if isinstance(stop_text, str) and stop_text and text.endswith(stop_text):
            return text.removesuffix(stop_text)
    return text
