"""A local server that stands in for the models of tinker-cookbook's recipes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_crucible.local_model.server.hub_cache import write_hub_cache
from pytest_crucible.local_model.server.process import LocalServer

MODELS = (
    *("Qwen/Qwen3.5-9B-Base", "Qwen/Qwen3.5-9B", "Qwen/Qwen3.5-4B", "Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.5-35B-A3B"),
    *("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V3.1", "openai/gpt-oss-20b"),
    *("moonshotai/Kimi-K2-Thinking", "moonshotai/Kimi-K2.6"),
)


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Iterator[dict[str, str]]:
    home = tmp_path_factory.mktemp("cookbook")
    options = [
        *(part for name in MODELS for part in ("--as", name)),
        "--stand-in",
        "stable_reinforce=importance_sampling",
    ]
    cache = write_hub_cache(home / "hub", MODELS)
    with LocalServer.start(home / "tinker", options=options) as server:
        yield {**os.environ, **server.environment(), **cache, "TINKER_COOKBOOK_RUNS_DIR": str(home / "runs")}
