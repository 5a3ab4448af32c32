"""Sampling parameters of an OpenAI-compatible server, from `parameters` of an adapter and from `sampler.generate`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytest_crucible.records.suggestions import suggest

_NUMBERS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
_COUNTS = ("max_tokens", "max_completion_tokens", "n", "best_of")
_WHOLE = ("seed", "top_k", "top_logprobs")
_TABLES = ("response_format", "logit_bias")
_UNCHECKED = ("stop", "logprobs", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "verbosity")
# Parameters of OpenAI's endpoints, and top_k, min_p and repetition_penalty of vLLM and llama.cpp. Anything else goes
# into `extra_body`.
PARAMETERS = (*_NUMBERS, *_COUNTS, *_WHOLE, *_TABLES, *_UNCHECKED)


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown parameter or a value of the wrong type.

    >>> check_parameters({"temprature": 0.7})
    Traceback (most recent call last):
        ...
    ValueError: unknown parameter 'temprature': did you mean 'temperature'?
    """
    for name, value in parameters.items():
        if name not in PARAMETERS:
            hint = suggest(
                name, PARAMETERS, otherwise="parameters of this server alone go into extra_body of the adapter"
            )
            raise ValueError(f"unknown parameter {name!r}: {hint}")
        if value is not None and (expected := _expectation(name, value)):
            raise ValueError(f"{name} must be {expected}, not {value!r}")


def _expectation(name: str, value: Any) -> str:
    """Return a description of the valid values; empty for a valid value."""
    if name in _NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return "" if is_number else "a number"
    if name in _COUNTS:
        return "" if type(value) is int and value > 0 else "a whole number from 1"
    if name in _WHOLE:
        return "" if type(value) is int else "a whole number"
    if name in _TABLES:
        return "" if isinstance(value, Mapping) else "a table"
    if name == "stop":
        several = [value] if isinstance(value, str) else value
        fits = isinstance(several, list | tuple) and all(isinstance(item, str) and item for item in several)
        return "" if fits else "a text or a list of texts, none of them empty"
    if name == "tools":
        return "" if isinstance(value, list | tuple) else "a list of tables"
    if name == "logprobs":
        return "" if isinstance(value, int) and value >= 0 else "true, false, or a number of alternatives"
    return ""
