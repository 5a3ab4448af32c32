"""Log-probabilities of a prompt, from the completions endpoint with `echo`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_crucible.backends.openai.settings import Settings
from pytest_crucible.records.errors import BackendError


def echo_body(settings: Settings, text: str) -> tuple[str, bytes]:
    """Return the path and the body of a request that repeats the prompt, with the log-probabilities of its tokens."""
    # One token is generated, because servers refuse none; it is left out below.
    body = {"model": settings.model, "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    return "/completions", json.dumps({**body, **settings.extra_body}).encode()


def parse_echo(answer: Mapping[str, Any], where: str) -> list[float]:
    """Return the log-probabilities of the prompt's tokens but the first. Raises BackendError if there are none."""
    try:
        logprobs = answer["choices"][0]["logprobs"]["token_logprobs"]
        count = answer["usage"]["prompt_tokens"]
        scored = [float(value) for value in logprobs[1:count]]
    except (KeyError, IndexError, TypeError, ValueError):
        scored, count = [], 0
    # A server that ignores `echo` returns the one generated token.
    if not count or len(scored) != count - 1:
        raise BackendError(f"{where} returned no log-probabilities of the prompt; use a server with echo, such as vLLM")
    return scored
