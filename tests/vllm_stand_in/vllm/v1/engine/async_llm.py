"""The engine: it reads a prompt's characters as tokens, and writes them back in upper case, after the name of the LoRA adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind, SamplingParams

STARTED: list[AsyncEngineArgs] = []
"""The arguments of all engines of this process."""


class EngineDeadError(Exception):
    """The error of this name in vllm.v1.engine.exceptions."""


@dataclass
class Logprob:
    logprob: float
    rank: int = 1


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None


@dataclass
class RequestOutput:
    request_id: str
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool


class Tokenizer:
    def __init__(self, chat_template: str | None) -> None:
        self.chat_template = chat_template

    def apply_chat_template(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool, tokenize: bool, return_dict: bool
    ) -> list[int]:
        assert add_generation_prompt
        assert tokenize
        assert not return_dict
        return [ord(sign) for message in messages for sign in f"<{message['role']}>{message['content']}"]


class AsyncLLM:
    def __init__(self, args: AsyncEngineArgs) -> None:
        self.args, self.is_dead = args, False
        settings = json.loads((Path(args.model) / "tokenizer_config.json").read_text("utf-8"))
        self._tokenizer = Tokenizer(settings.get("chat_template"))

    @classmethod
    def from_engine_args(cls, engine_args: AsyncEngineArgs) -> AsyncLLM:
        STARTED.append(engine_args)
        return cls(engine_args)

    async def get_tokenizer(self, lora_request: LoRARequest | None = None) -> Tokenizer:
        return self._tokenizer

    async def generate(
        self,
        prompt: str | dict[str, Any],
        sampling_params: SamplingParams,
        request_id: str,
        *,
        lora_request: LoRARequest | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        if self.is_dead:
            raise EngineDeadError("the engine core has died")
        if lora_request is not None and not self.args.enable_lora:
            raise ValueError("LoRA is not enabled")
        ids = prompt["prompt_token_ids"] if isinstance(prompt, dict) else list(map(ord, prompt))
        if self.args.max_model_len is not None and len(ids) >= self.args.max_model_len:
            raise ValueError(f"The prompt has {len(ids)} tokens, the model reads {self.args.max_model_len}")
        await asyncio.sleep(0.001)
        name = "" if lora_request is None else f"[{lora_request.lora_name}]"
        assert sampling_params.output_kind is RequestOutputKind.FINAL_ONLY
        text = f"{name}{''.join(map(chr, ids)).upper()}"
        outputs = [self._output(index, text, sampling_params) for index in range(sampling_params.n)]
        yield RequestOutput(request_id, ids, outputs, finished=True)

    def shutdown(self) -> None:
        self.is_dead = True

    def _output(self, index: int, text: str, params: SamplingParams) -> CompletionOutput:
        if index and params.seed is not None:
            text += str((params.seed + index) % 10)
        reason = "stop"
        for stop in params.stop:
            text = text.partition(stop)[0]
        if params.max_tokens is not None and len(text) > params.max_tokens:
            text, reason = text[: params.max_tokens], "length"
        ids = list(map(ord, text))
        logprobs = None if params.logprobs is None else [{token: Logprob(-0.5)} for token in ids]
        return CompletionOutput(index, text, ids, logprobs, reason)
