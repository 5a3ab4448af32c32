"""A model that vLLM's engine serves inside the process of a worker, without a server."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pytest_crucible.backends.deadlines import note_answer, paused_clock
from pytest_crucible.backends.openai.settings import PARAMETERS, check_parameters
from pytest_crucible.backends.protocol import derived_seed
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable

# What OpenAI's endpoints know and the engine does not: it has no tools and no grammars of its own here.
_LACKING = frozenset(
    (
        *("best_of", "logit_bias", "response_format", "tools", "tool_choice", "parallel_tool_calls"),
        *("reasoning_effort", "verbosity", "top_logprobs"),
    )
)
# Ranks that vLLM has kernels for.
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_NUMBERS = itertools.count(1)


@dataclass(eq=False)
class SharedEngine:
    """The engine of one base model, with the LoRA adapters of all arms; it starts when the first request is sent."""

    model: Path
    arguments: Mapping[str, Any]
    loras: dict[Path, int] = field(default_factory=dict)
    """LoRA adapters and their numbers."""
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _engine: Any = None

    def add_lora(self, path: Path) -> int:
        return self.loras.setdefault(path, len(self.loras) + 1)

    async def get(self) -> Any:
        """Return the running engine."""
        async with self._starting:
            if self._engine is None:
                # Weights take minutes to load, in which other samples of the loop go on.
                with paused_clock():
                    self._engine = await asyncio.to_thread(self._start)
            return self._engine

    def close(self) -> None:
        """End the engine and its processes. The next request starts another one. Idempotent."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()

    def _start(self) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments: dict[str, Any] = {"disable_log_stats": True, **self.arguments}
        if self.loras:
            most = max(map(_read_rank, self.loras))
            rank = next((rank for rank in _RANKS if rank >= most), most)
            arguments = {"enable_lora": True, "max_loras": len(self.loras), "max_lora_rank": rank, **arguments}
        return AsyncLLM.from_engine_args(AsyncEngineArgs(model=str(self.model), **arguments))


def _read_rank(lora: Path) -> int:
    return int(json.loads((lora / "adapter_config.json").read_text("utf-8")).get("r", _RANKS[0]))


class VllmBackend:
    """Samples from a base model, or from it with a LoRA adapter. Prompts are texts, messages or token ids."""

    def __init__(
        self, engine: SharedEngine, *, name: str, identity: str, lora: Path | None, system: str, simulated: bool
    ) -> None:
        """`simulated` is True for a stand-in of vLLM."""
        self.identity, self.simulated, self.system = identity, simulated, system
        self._engine, self._name, self._lora = engine, name, lora
        self._number = engine.add_lora(lora) if lora is not None else 0

    async def generate(self, request: Request) -> Reply:
        """Return a reply. Raises Refused for invalid parameters and inputs, BackendError, Retryable for an engine that died."""
        try:
            sampling = sampling_arguments(request)
        except ValueError as error:
            raise Refused(f"adapter {self._name!r} has invalid parameters: {error}") from None
        engine, started = await self._engine.get(), time.perf_counter()
        prompt = await self._prompt(engine, request)
        output = await self._run(engine, prompt, sampling)
        note_answer()
        return _read_reply(output, self._name, time.perf_counter() - started)

    async def close(self) -> None:
        """End the engine, which other adapters may share: all of a session are closed together."""
        await asyncio.to_thread(self._engine.close)

    async def _run(self, engine: Any, prompt: Any, sampling: Mapping[str, Any]) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        output, identity = None, f"crucible-{next(_NUMBERS)}"
        try:
            params = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **sampling)
            async for part in engine.generate(prompt, params, identity, lora_request=self._lora_request()):
                output = part
        except ValueError as error:
            # Such as a prompt that is longer than the context.
            raise BackendError(f"adapter {self._name!r} cannot read a prompt: {error}") from None
        except Exception as error:
            if type(error).__name__ not in ("EngineDeadError", "EngineGenerateError"):
                raise
            self._engine.close()
            raise Retryable(f"the engine of adapter {self._name!r} has died: {error}", kind="connection") from None
        if output is None or not output.finished:
            raise Retryable(f"the engine of adapter {self._name!r} ended a request early", kind="garbage")
        return output

    def _lora_request(self) -> Any:
        if self._lora is None:
            return None
        from vllm.lora.request import LoRARequest

        return LoRARequest(self._lora.name, self._number, str(self._lora))

    async def _prompt(self, engine: Any, request: Request) -> Any:
        """Return token ids, by the tokenizer's chat template for a text or messages. Raises Refused."""
        prompt = request.input
        if isinstance(prompt, list | tuple) and prompt and all(type(token) is int for token in prompt):
            return {"prompt_token_ids": list(prompt)}
        tokenizer = engine.get_tokenizer()
        tokenizer = await tokenizer if inspect.isawaitable(tokenizer) else tokenizer
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        if self.system and messages[0].get("role") != "system":
            messages.insert(0, {"role": "system", "content": self.system})
        if not getattr(tokenizer, "chat_template", None):
            if isinstance(prompt, str) and not self.system:
                return prompt
            raise Refused(f"adapter {self._name!r} has messages, and its tokenizer has no chat template: send a text")
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        return {"prompt_token_ids": list(ids)}


def sampling_arguments(request: Request) -> dict[str, Any]:
    """Return the arguments of vLLM's SamplingParams for a request. Raises ValueError for invalid parameters."""
    parameters = {name: value for name, value in request.parameters.items() if value is not None}
    check_parameters(parameters)
    if lacking := sorted(_LACKING & set(parameters)):
        raise ValueError(f"{lacking[0]!r} is a parameter of servers: expected {', '.join(sorted(_KNOWN))}")
    limit = parameters.pop("max_completion_tokens", None)
    if "seed" in parameters:
        parameters["seed"] = derived_seed(parameters["seed"], request.sample, request.repeat, 1)
    if "logprobs" in parameters:
        # 0 alternatives: the log-probability of each token alone.
        parameters["logprobs"] = _count_alternatives(parameters["logprobs"])
    # vLLM's own default is 16 tokens; a server's is what the context leaves.
    return {"max_tokens": limit, **parameters}


_KNOWN = frozenset(PARAMETERS) - _LACKING


def _count_alternatives(logprobs: bool | int) -> int | None:
    return (0 if logprobs else None) if isinstance(logprobs, bool) else logprobs


def _read_reply(output: Any, model: str, seconds: float) -> Reply:
    first, *others = (
        Reply(text=part.text, finish=part.finish_reason or "", logprobs=_read_logprobs(part)) for part in output.outputs
    )
    return Reply(
        text=first.text,
        finish=first.finish,
        logprobs=first.logprobs,
        alternatives=tuple(others),
        input_tokens=len(output.prompt_token_ids or ()),
        output_tokens=sum(len(part.token_ids) for part in output.outputs),
        latency_s=seconds,
        model=model,
    )


def _read_logprobs(part: Any) -> tuple[float, ...] | None:
    """Return the log-probability of each token that was chosen; None if they were not requested."""
    if part.logprobs is None:
        return None
    pairs: Sequence[tuple[int, Any]] = list(zip(part.token_ids, part.logprobs, strict=True))
    return tuple(float(entry[token].logprob) if token in entry else -math.inf for token, entry in pairs)
