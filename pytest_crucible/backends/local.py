"""The embedded model as a backend: its base, or the base with an adapter, sampled on this machine's CPU.

The answers are a model's own. A reply depends on the weights, the prompt, the parameters, the sample's id and the number of the
repeat, and on nothing else: neither on what is asked beside it, nor on how many are asked at a time. To ask the same twice
within one sample and hear two answers, give each call a `seed` of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_crucible.backends.engine_thread import EngineThread
from pytest_crucible.embedded.chat import rendered
from pytest_crucible.embedded.checkpoints import load_sampler
from pytest_crucible.embedded.engine import PACKAGED, Engine, Sampler
from pytest_crucible.embedded.lineages import read_lineage
from pytest_crucible.embedded.lora import Adapter
from pytest_crucible.embedded.sampling import SamplingParams
from pytest_crucible.errors import BackendError, Refused, SpecError
from pytest_crucible.records import Reply, Request, TrainingResult

PARAMETERS = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed")
"""What `parameters` of an adapter may say."""
_WHOLE = ("max_tokens", "top_k", "seed")
_THREAD = EngineThread()
"""One for all adapters of a process: they share a base, and what they compute with is one thread's at a time."""


class LocalBackend:
    """Answers from one sampler. Prompts are texts, or messages, which `embedded.chat` makes one text of.

    A prompt that leaves no room in the context is answered with nothing, cut by length: that the model cannot read it is the
    model's own failure, not the world's, and asking again would change nothing.
    """

    simulated = False

    def __init__(self, sampler: Sampler, *, identity: str, name: str, training: TrainingResult | None = None) -> None:
        self.identity = identity
        self.training = training
        self._sampler = sampler
        self._name = name

    async def generate(self, request: Request) -> Reply:
        """Raises Refused for parameters and inputs that mean nothing, BackendError for a text that cannot be encoded."""
        started = time.perf_counter()
        params = self._params(request)
        prompt = self._prompt(request)
        if len(prompt) >= self._sampler.engine.shape.context:
            return Reply(text="", input_tokens=len(prompt), output_tokens=0, latency_s=0.0, finish="length")
        sampled = await asyncio.wrap_future(_THREAD.ask(self._sampler, prompt, params))
        return Reply(
            text=sampled.text,
            input_tokens=len(prompt),
            output_tokens=len(sampled.tokens),
            latency_s=time.perf_counter() - started,
            finish=sampled.stop_reason,
        )

    def _params(self, request: Request) -> SamplingParams:
        try:
            params = sampling_params(request.parameters)
        except ValueError as error:
            raise Refused(f"adapter {self._name!r} cannot be asked like this: {error}") from None
        return replace(params, seed=seed_of_reply(params.seed or 0, request))

    def _prompt(self, request: Request) -> list[int]:
        tokenizer = self._sampler.engine.tokenizer
        try:
            return tokenizer.encode(prompt_of(request.input)) or [tokenizer.eos]
        except TypeError as error:
            raise Refused(f"adapter {self._name!r} cannot be asked sample {request.sample!r}: {error}") from None
        except ValueError as error:
            raise BackendError(f"adapter {self._name!r} cannot read sample {request.sample!r}: {error}") from None


def seed_of_reply(seed: int, request: Request) -> int:
    """Of each sample and repeat its own; the same for all adapters, so that chance does not part them."""
    told = json.dumps([seed, request.sample, request.epoch]).encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=7).digest(), "little")


def local(engine: Engine, checkpoint: Path | None, *, name: str) -> LocalBackend:
    """The base, or with the adapter in a checkpoint: a file, or the directory of a trained adapter.

    Its identity is made of the base's hash and that of the adapter's values, not of a file, whose header may be in any order.
    Raises SpecError for a checkpoint that is missing or does not fit.
    """
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
    )


def _identity(engine: Engine, adapter: Adapter) -> str:
    told = hashlib.sha256(f"{engine.base_sha256} {adapter.spec.scale}".encode())
    for factor, values in sorted(adapter.factors.items()):
        told.update(f"{factor} {values.dtype} {values.shape}".encode())
        told.update(values.tobytes())
    return told.hexdigest()


def open_engine(directory: Path | None) -> Engine:
    """The base model in a directory, or the packaged one: read once, however many adapters stand on it.

    Raises SpecError for a directory that holds none.
    """
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


def prompt_of(given: Any) -> str:
    """A text as it is; messages as one text. Raises TypeError for anything else."""
    if isinstance(given, str):
        return given
    if not isinstance(given, Sequence) or not given:
        raise TypeError(f"its input is a {type(given).__name__}, wanted a text or a list of messages")
    return rendered(given)


def sampling_params(parameters: Mapping[str, Any]) -> SamplingParams:
    """What parameters say. Raises ValueError for unknown ones, and for values that mean nothing.

    >>> sampling_params({"max_tokens": 60, "stop": "END"}).stop
    ('END',)
    """
    if unknown := sorted(set(parameters) - set(PARAMETERS)):
        raise ValueError(f"there is no parameter {unknown[0]!r}, it takes {', '.join(PARAMETERS)}")
    given = {name: value for name, value in parameters.items() if value is not None}
    for name in sorted(given):
        value, wanted = given[name], int if name in _WHOLE else int | float
        if name != "stop" and (isinstance(value, bool) or not isinstance(value, wanted)):
            raise ValueError(f"{name} must be a {'whole ' if name in _WHOLE else ''}number, not {value!r}")
    if "stop" in given:
        given["stop"] = _stops(given["stop"])
    return SamplingParams(**given)


def _stops(given: Any) -> tuple[str, ...]:
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, list | tuple) or not all(isinstance(one, str) and one for one in several):
        raise ValueError(f"stop must be a text or a list of texts, none of them empty, not {given!r}")
    return tuple(several)
