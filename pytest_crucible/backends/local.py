"""The embedded model as a backend: its base, or the base with an adapter, sampled on this machine's CPU.

A reply depends on the weights, the prompt, the parameters, the sample's id and the number of the repeat, and on nothing else:
not on other requests, nor on how many run at a time. For two different replies to one prompt within a sample, give each call a
`seed` of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import field, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from pytest_crucible.backends.lineages import read_lineage
from pytest_crucible.backends.protocol import CHOICES, read_stops, score_choices
from pytest_crucible.local_model.checkpoints import Adapter, find_sampler_file, load_sampler
from pytest_crucible.local_model.engine import PACKAGED, Engine, Sampler
from pytest_crucible.local_model.sampling import SamplingParams, TextPieces, Token
from pytest_crucible.local_model.tokens import render_prompt
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Ancestor, Reply, Request, TrainingResult
from pytest_crucible.records.errors import BackendError, Refused, SpecError, describe_type
from pytest_crucible.records.files import hash_file

CHUNK = 32
GATHER_S = 0.002
"""Time to wait for further requests of the same moment, so that they share a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedRequest:
    sampler: Sampler
    prompt: list[int]
    params: SamplingParams | None
    """None for a prompt that is scored, not answered."""
    answer: Future[Any] = field(default_factory=Future)


class EngineThread:
    """Starts with the first request, ends when none is left, and answers in batches by model and length."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_QueuedRequest] = []
        self._running = False

    def ask(self, sampler: Sampler, prompt: list[int], params: SamplingParams | None) -> Future[Any]:
        """Return a future of the reply; without `params`, of the log-probabilities of the prompt's tokens but the first.

        Cancelling it before its turn saves the work.
        """
        request = _QueuedRequest(sampler, prompt, params)
        with self._lock:
            self._waiting.append(request)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="crucible-engine", daemon=True).start()
        return request.answer

    def _run(self) -> None:
        while waiting := self._gather_requests():
            for chunk in _chunks(waiting):
                _answer(chunk)

    def _gather_requests(self) -> list[_QueuedRequest]:
        time.sleep(GATHER_S)
        with self._lock:
            waiting, self._waiting = self._waiting, []
            # Set under the lock: a request that arrives now either is in `waiting` or starts a new thread.
            self._running = bool(waiting)
        return waiting


def _chunks(waiting: list[_QueuedRequest]) -> Iterator[list[_QueuedRequest]]:
    # Neighbours in length share a batch, which takes as long as its longest prompt. A prompt is scored alone.
    def model(request: _QueuedRequest) -> tuple[bool, int]:
        return request.params is not None, id(request.sampler)

    in_order = sorted(waiting, key=lambda request: (*model(request), len(request.prompt)))
    for (is_sampled, _), group in groupby(in_order, key=model):
        of_one, size = list(group), CHUNK if is_sampled else 1
        for start in range(0, len(of_one), size):
            yield of_one[start : start + size]


def _answer(chunk: list[_QueuedRequest]) -> None:
    requests = [request for request in chunk if request.answer.set_running_or_notify_cancel()]
    if not requests:
        return
    sampler, prompts = requests[0].sampler, [request.prompt for request in requests]
    params = [request.params for request in requests if request.params is not None]
    try:
        replies = sampler.sample(prompts, params) if params else [sampler.logprobs(prompts[0]).logprobs[1:].tolist()]
    except BaseException as error:  # every waiting request has to end, whatever was raised
        for request in requests:
            request.answer.set_exception(error)
    else:
        for request, reply in zip(requests, replies, strict=True):
            request.answer.set_result(reply)


class TokenStream:
    """Delivers a reply's text to the sampling loop while the engine's thread samples it."""

    def __init__(self, sampler: Sampler, params: SamplingParams, receive: Callable[[str], None]) -> None:
        texts = [stop for stop in params.stop or () if isinstance(stop, str)]
        self._pieces = TextPieces(sampler.engine.tokenizer, texts)
        self._receive, self._loop = receive, asyncio.get_running_loop()
        self.first_at: float | None = None
        """Time of the first token by `time.perf_counter`."""

    def watch(self, number: int, token: Token) -> None:
        """Deliver a token; called in the engine's thread."""
        self.first_at = self.first_at or time.perf_counter()
        # A closed loop needs no text, and an error at this point would end the replies of the whole batch.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self._receive(self._pieces.add(token.id)))


PARAMETERS = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed")
_WHOLE = ("max_tokens", "top_k", "seed")
_THREAD = EngineThread()
"""One for all adapters of a process: they share a base, whose buffers only one thread may use at a time."""


class LocalBackend:
    """Samples from the base or one adapter. Prompts are texts, or messages, which `local_model.chat` renders as one text.

    The reply to a prompt that fills the context is empty and cut by length: that the model cannot read the prompt is the
    model's own failure, and a retry would not change it.
    """

    simulated = False

    def __init__(
        self,
        sampler: Sampler,
        *,
        identity: str,
        name: str,
        training: TrainingResult | None = None,
        step: int | None = None,
        trained_on: Mapping[str, str] | None = None,
        ancestry: tuple[Ancestor, ...] = (),
        without_effect: str = "",
    ) -> None:
        """`step` is one that the recipe kept before its end; `trained_on` are the files of the training, SHA-256 -> name.
        `ancestry` are the trainings behind the weights.

        `without_effect` is why the weights change no reply of the base, if they do not.
        """
        self.without_effect = without_effect
        self.identity, self.training, self.step, self.trained_on = identity, training, step, trained_on or {}
        self.ancestry = ancestry
        self._sampler, self._name = sampler, name

    async def generate(self, request: Request) -> Reply:
        """Return a reply. Raises Refused for invalid parameters and inputs, BackendError for a text that cannot be encoded."""
        if CHOICES in request.parameters:
            return await score_choices(self, request)
        started = time.perf_counter()
        try:
            params = sampling_params(request.parameters)
        except ValueError as error:
            raise Refused(f"adapter {self._name!r} has invalid parameters: {error}") from None
        params = replace(params, seed=reply_seed(params.seed or 0, request))
        prompt = self._prompt(request)
        # One token of the context has to be left for the reply.
        if len(prompt) >= self._sampler.engine.shape.context:
            return Reply(text="", input_tokens=len(prompt), output_tokens=0, latency_s=0.0, finish="length")
        tokens = None if request.open_stream is None else TokenStream(self._sampler, params, request.open_stream())
        params = params if tokens is None else replace(params, watch=tokens.watch)
        sampled = await asyncio.wrap_future(_THREAD.ask(self._sampler, prompt, params))
        return Reply(
            text=sampled.text,
            input_tokens=len(prompt),
            output_tokens=len(sampled.tokens),
            latency_s=time.perf_counter() - started,
            first_token_s=tokens.first_at - started if tokens and tokens.first_at else None,
            finish=sampled.stop_reason,
        )

    async def score_prompt(self, text: str) -> Sequence[float]:
        """Return the log-probability of each token but the first. Raises BackendError for a text that fills the context."""
        try:
            tokens = self._sampler.engine.tokenizer.encode(text)
        except ValueError as error:
            raise BackendError(f"adapter {self._name!r} cannot read a text: {error}") from None
        context = self._sampler.engine.shape.context
        if len(tokens) > context:
            raise BackendError(f"a text has {len(tokens):,} tokens, and adapter {self._name!r} reads {context:,}")
        if len(tokens) < 2:
            return []
        logprobs: list[float] = await asyncio.wrap_future(_THREAD.ask(self._sampler, tokens, None))
        return logprobs

    def _prompt(self, request: Request) -> list[int]:
        tokenizer = self._sampler.engine.tokenizer
        try:
            return tokenizer.encode(prompt_text(request.input)) or [tokenizer.eos]
        except TypeError as error:
            raise Refused(f"adapter {self._name!r} cannot answer sample {request.sample!r:.200}: {error}") from None
        except ValueError as error:
            raise BackendError(f"adapter {self._name!r} cannot read sample {request.sample!r:.200}: {error}") from None


def reply_seed(seed: int, request: Request) -> int:
    """Return a seed for each sample and repeat, the same for all adapters, so that arms do not differ by chance alone."""
    parts = json.dumps([seed, request.sample, request.repeat]).encode()
    return int.from_bytes(hashlib.blake2b(parts, digest_size=7).digest(), "little")


def load_local(engine: Engine, checkpoint: Path | None, *, name: str) -> LocalBackend:
    """Return the base as a backend, or with a checkpoint (a file, or a trained adapter's directory). Raises SpecError."""
    if checkpoint is None:
        return LocalBackend(engine.sampler(), identity=engine.base_sha256, name=name)
    try:
        adapter = load_sampler(checkpoint, engine.shape, engine.base_sha256)
    except (OSError, ValueError) as error:
        raise SpecError(f"adapter {name!r} cannot be opened: {error}") from error
    lineage = read_lineage(checkpoint)
    return LocalBackend(
        Sampler(engine, adapter),
        identity=_identity(engine, adapter),
        name=name,
        training=None if lineage is None else lineage.result,
        step=None if lineage is None else lineage.step,
        trained_on=None if lineage is None else lineage.training_files,
        ancestry=(Ancestor(weights=hash_file(find_sampler_file(checkpoint))),) if lineage is None else lineage.ancestry,
        without_effect="one factor of each of its LoRA pairs is 0" if adapter.changes_nothing else "",
    )


def _identity(engine: Engine, adapter: Adapter) -> str:
    digest = hashlib.sha256(f"{engine.base_sha256} {adapter.spec.scale}".encode())
    # Name, type and shape precede the bytes, so that no other split of the same bytes has this hash.
    for factor, values in sorted(adapter.factors.items()):
        digest.update(f"{factor} {values.dtype} {values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def open_engine(directory: Path | None) -> Engine:
    """Return the base model in a directory, or the packaged one, read once for all adapters.

    Raises SpecError for a directory without a base model.
    """
    # The times of change are part of the cache's key: a base that is trained again in a session is read again.
    base = (directory or PACKAGED).resolve()
    try:
        return _engine(
            base, *(file.stat().st_mtime_ns for file in (base / "model.safetensors", base / "tokenizer.json"))
        )
    except (OSError, ValueError) as error:
        raise SpecError(f"base model {str(base)!r} cannot be opened: {error}") from error


@lru_cache(maxsize=2)
def _engine(directory: Path, model_changed: int, tokenizer_changed: int) -> Engine:
    return Engine.load(directory)


def prompt_text(prompt: Any) -> str:
    """Return a text as it is, and messages as one text. Raises TypeError for anything else."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Sequence) or not prompt:
        raise TypeError(f"its input is {describe_type(prompt)}; expected a text or a list of messages")
    return render_prompt(prompt)


def sampling_params(parameters: Mapping[str, Any]) -> SamplingParams:
    """Return parameters as SamplingParams. Raises ValueError for unknown names and invalid values.

    >>> sampling_params({"max_tokens": 60, "stop": "END"}).stop
    ('END',)
    """
    if unknown := sorted(set(parameters) - set(PARAMETERS)):
        raise ValueError(f"unknown parameter {unknown[0]!r}, expected {', '.join(PARAMETERS)}")
    settings = {name: value for name, value in parameters.items() if value is not None}
    for name in sorted(settings):
        value, expected = settings[name], int if name in _WHOLE else int | float
        if name != "stop" and (isinstance(value, bool) or not isinstance(value, expected)):
            raise ValueError(f"{name} must be a {'whole ' if name in _WHOLE else ''}number, not {value!r}")
    if "stop" in settings:
        settings["stop"] = read_stops(settings["stop"])
        if settings["stop"] is None:
            raise ValueError(f"stop must be a text or a list of texts, none of them empty, not {parameters['stop']!r}")
    return SamplingParams(**settings)
