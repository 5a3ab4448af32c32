"""Arguments of an engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class AsyncEngineArgs:
    model: str
    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 16
    max_model_len: int | None = None
    disable_log_stats: bool = False
