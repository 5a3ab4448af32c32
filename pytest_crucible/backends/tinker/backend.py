"""The Tinker backend: a Backend over the `SamplingClient` of the official SDK, hosted or local.

`TinkerBackend` gets an open client and knows neither service nor key. The SDK is imported when the first parameters are read.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_crucible.backends.context import QueueState
from pytest_crucible.backends.deadlines import return_time
from pytest_crucible.backends.protocol import CHOICES, derived_seed, score_choices
from pytest_crucible.backends.tinker.health import is_too_long, translate_error
from pytest_crucible.records import Ancestor, Reply, Request, TrainingResult
from pytest_crucible.records.errors import BackendError, Refused, describe_type

_MEDIA = frozenset({"image", "image_url", "input_image", "audio", "input_audio", "video", "video_url", "file"})


def prompt_tokens(prompt: Any, tokenizer: Any) -> list[int]:
    """Return the token ids of an input; for an empty text the end token, because a model has to read something."""
    if isinstance(prompt, Sequence) and prompt and all(type(part) is int for part in prompt):
        return list(prompt)
    is_chat = not isinstance(prompt, str) and isinstance(prompt, Sequence) and prompt
    if not isinstance(prompt, str) and not (is_chat and all(isinstance(part, Mapping) for part in prompt)):
        raise Refused(
            f"Tinker cannot sample from {describe_type(prompt)}: give a text, messages with role and content, or token ids"
        )
    if is_chat:
        _refuse_media(prompt)
    try:
        tokens = _chat_tokens(prompt, tokenizer) if is_chat else list(tokenizer.encode(prompt))
    except ValueError as error:
        raise BackendError(f"the prompt cannot be encoded: {error}") from None
    end = getattr(tokenizer, "eos_token_id", None)
    return tokens or ([end] if end is not None else [])


def _refuse_media(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raise Refused for a picture or a recording: a chat template may drop it without a word."""
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list | tuple) else ():
            if isinstance(part, Mapping) and part.get("type") in _MEDIA:
                raise Refused(
                    f"a message has a part of type {part['type']!r}, and backend 'tinker' sends texts only: "
                    "use backend 'openai' and the service's OpenAI-compatible endpoint"
                )


def _chat_tokens(messages: Sequence[Mapping[str, Any]], tokenizer: Any) -> list[int]:
    if getattr(tokenizer, "chat_template", None) is None:
        raise Refused("this model has no chat template for messages: give a text")
    try:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    except TypeError as error:
        raise Refused(f"Tinker cannot sample from these messages: {error}") from None
    except ImportError as error:
        raise Refused(f'chat templates need jinja2: pip install "pytest-crucible[tinker]" ({error})') from None
    # Templates raise errors of their own, for instance for roles that do not alternate.
    except Exception as error:
        raise BackendError(f"the model's chat template cannot render these messages: {error}") from None
    # The template has written the special tokens already.
    return list(tokenizer.encode(text, add_special_tokens=False))


PARAMETERS = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed")
LOOK_S = 0.5
"""Time between checks of the service while a request waits: the SDK itself would retry for minutes."""


class TinkerBackend:
    """Samples from one checkpoint or base model.

    An input is a text, a list of messages (`{"role": ..., "content": ...}`, through the tokenizer's chat template) or a list
    of token ids. With a `seed`, every sample, repeat and call has a seed of its own that is derived from it.

    The reply to a prompt that fills the context is empty and cut by length: that the model cannot read the prompt is the
    model's own failure, and a retry would not change it. Where the service reports its `context`, such a prompt is not sent.
    """

    def __init__(
        self,
        client: Any,
        tokenizer: Any,
        *,
        identity: str,
        seed: int | None = None,
        context: int | None = None,
        server: str = "",
        model: str = "",
        training: TrainingResult | None = None,
        step: int | None = None,
        trained_on: Mapping[str, str] | None = None,
        ancestry: tuple[Ancestor, ...] = (),
        simulated: bool = False,
        bases: Sequence[str] = (),
        renderer: str = "",
        open_trainer: Callable[[], Any] | None = None,
        check: Callable[[float], None] = lambda waited_s: None,
        queue: QueueState | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        """`client` is a `tinker.SamplingClient`; `tokenizer` has the interface of transformers, a chat template is optional.

        `bases` are names of the base model under which its tokens may have a price.

        `renderer` is that of its training, as its metadata name it; `open_trainer` returns the SDK's TrainingClient of a state
        with the same weights.

        `simulated` is True where a local server lets another model answer under this name.

        `check` takes the seconds waited so far and raises BackendError when the service is gone; a pause of its `queue` is not
        the time of the samples; `hide` removes keys.
        """
        self.identity, self.server, self.model = identity, server, model
        self.training, self.step, self.simulated = training, step, simulated
        self.trained_on, self.ancestry, self.bases = trained_on or {}, ancestry, tuple(bases)
        self.renderer, self._open_trainer, self._opening = renderer, open_trainer, threading.Lock()
        self._client, self._tokenizer, self._seed, self._context = client, tokenizer, seed, context
        self._check, self._queue = check, queue or QueueState()
        self._hide = hide

    @property
    def sampling_client(self) -> Any:
        """The SDK's client of the model, for evaluators that send requests of their own."""
        return self._client

    async def generate(self, request: Request) -> Reply:
        # A service that is known to be gone fails at once, without a request.
        self._check(0.0)
        if CHOICES in request.parameters:
            return await score_choices(self, request)
        tokens = prompt_tokens(request.input, self._tokenizer)
        seed = request.parameters.get("seed", self._seed)
        if seed is not None:
            seed = derived_seed(seed, request.sample, request.repeat, request.call, tokens)
        params = sampling_params({**request.parameters, "seed": seed})
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

    @functools.cached_property
    def _trainer(self) -> Any:
        assert self._open_trainer is not None
        return self._open_trainer()

    async def compare_with_trainer(self, prompt: Any, text: str) -> Sequence[tuple[float, float]] | None:
        """Return log-probabilities of the tokens of a reply by the sampler and by the trainer; None without a state to train.

        Both read the same tokens. Raises BackendError.
        """
        if self._open_trainer is None:
            return None
        read, written = prompt_tokens(prompt, self._tokenizer), self._tokenizer.encode(text, add_special_tokens=False)
        tokens = [*read, *written]
        sdk = _sdk()
        datum = sdk.Datum(
            model_input=sdk.ModelInput.from_ints(tokens[:-1]),
            loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)},
        )
        try:
            trainer = await asyncio.to_thread(self._find_trainer)
            sampled = await self._answer(self._client.compute_logprobs(sdk.ModelInput.from_ints(tokens)))
            trained = await self._answer(trainer.forward([datum], "cross_entropy"))
        except BackendError:
            raise
        except Exception as error:
            # Without the SDK's traceback, whose frames may hold the key.
            raise translate_error(error, self._hide) from None
        of_trainer = list(trained.loss_fn_outputs[0]["logprobs"].data)
        pairs = list(zip(list(sampled)[1:], of_trainer, strict=True))
        return [(float(ours), float(theirs)) for ours, theirs in pairs[len(pairs) - len(written) :]]

    def _find_trainer(self) -> Any:
        # Samples are scored at once, and one training run is enough.
        with self._opening:
            return self._trainer

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
