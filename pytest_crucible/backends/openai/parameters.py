"""What `parameters` of an adapter, and of `sampler.generate`, may say to an OpenAI-shaped server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pytest_crucible.backends.openai.settings import nearest

_NUMBERS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
_COUNTS = ("max_tokens", "max_completion_tokens", "n", "best_of")
_WHOLE = ("seed", "top_k", "top_logprobs")
_TABLES = ("response_format", "logit_bias")
_OTHERS = ("stop", "logprobs", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "verbosity")
PARAMETERS = (*_NUMBERS, *_COUNTS, *_WHOLE, *_TABLES, *_OTHERS)
"""Those of OpenAI's own endpoints, and top_k, min_p and repetition_penalty, which vLLM and llama.cpp have. What else a server
takes goes into `extra_body`."""


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise ValueError for a name that is not known, and for a value of the wrong kind.

    >>> check_parameters({"temprature": 0.7})
    Traceback (most recent call last):
        ...
    ValueError: there is no parameter 'temprature': did you mean 'temperature'?
    """
    for name, value in parameters.items():
        if name not in PARAMETERS:
            hint = nearest(name, PARAMETERS) or ": what only this server knows goes into extra_body of the adapter"
            raise ValueError(f"there is no parameter {name!r}{hint}")
        if value is not None and (wanted := _wanted(name, value)):
            raise ValueError(f"{name} must be {wanted}, not {value!r}")


def _wanted(name: str, value: Any) -> str:
    """What is wanted instead of the value; empty where it will do."""
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
        fits = isinstance(several, list | tuple) and all(isinstance(one, str) and one for one in several)
        return "" if fits else "a text or a list of texts, none of them empty"
    if name == "tools":
        return "" if isinstance(value, list | tuple) else "a list of tables"
    if name == "logprobs":
        return "" if isinstance(value, int) and value >= 0 else "true, false, or how many of the likeliest to tell"
    return ""
