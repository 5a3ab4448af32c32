"""The probability of each choice of a question, from the log-probabilities of the prompt followed by that choice."""

from __future__ import annotations

import math
import time
from typing import Any

from pytest_crucible.backends.protocol import ScoresPrompts
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import Refused
from pytest_crucible.records.type_names import describe_type

CHOICES = "choices"
"""The parameter of a request that scores choices and generates nothing."""


async def score_choices(backend: ScoresPrompts, request: Request) -> Reply:
    """Return the most probable choice as the text, and the probabilities of all choices, which add up to 1, as the value.

    The log-probability of a choice is that of the prompt followed by it, less that of the prompt. Raises Refused for an invalid
    request, and BackendError.
    """
    prompt, choices = request.input, request.parameters[CHOICES]
    check_choices(request.sample, prompt, choices)
    started = time.perf_counter()
    # The same for all choices, so that it changes no probability; it keeps the sums small.
    before = math.fsum(await backend.score_prompt(prompt))
    logprobs = [math.fsum(await backend.score_prompt(prompt + choice)) - before for choice in choices]
    most = max(logprobs)
    weights = [math.exp(logprob - most) for logprob in logprobs]
    total = math.fsum(weights)
    value = {choice: weight / total for choice, weight in zip(choices, weights, strict=True)}
    return Reply(
        text=max(value, key=lambda choice: value[choice]).strip(), value=value, latency_s=time.perf_counter() - started
    )


def check_choices(sample: str, prompt: Any, choices: Any) -> None:
    """Raise Refused unless the prompt is a text and there are two or more choices, all different texts."""
    is_list = isinstance(choices, list | tuple) and all(isinstance(choice, str) and choice for choice in choices)
    if not is_list or len(set(choices)) != len(choices) or len(choices) < 2:
        raise Refused(f"sample {sample!r:.200} has choices={choices!r:.100}; expected two or more different texts")
    if not isinstance(prompt, str):
        raise Refused(
            f"sample {sample!r:.200}: choices are scored after a text, not {describe_type(prompt)}; join the messages"
        )
