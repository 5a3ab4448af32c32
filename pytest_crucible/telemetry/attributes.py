"""The attributes of spans, from the facts of events.

Names follow the semantic conventions for generative AI; names that the conventions lack begin with `crucible.`.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_crucible.records import Event

SCOPE = "pytest_crucible"
"""The name of the instrumentation, as spans and metrics have it."""
OPERATION = "chat"
_PARAMETERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
    "n": "gen_ai.request.choice.count",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}
_RESPONSE = {
    "model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "first_token_s": "gen_ai.response.time_to_first_chunk",
    "cost_usd": "crucible.cost_usd",
}


def unit_attributes(event: Event) -> dict[str, str | int]:
    return {
        "crucible.experiment": event.experiment,
        "crucible.arm": event.arm,
        "crucible.sample": event.sample,
        "crucible.repeat": event.repeat,
    }


def request_attributes(event: Event) -> dict[str, Any]:
    """Return the attributes of an arm's requests, from the facts of a `sample.start` event: `adapter` and `parameters`.

    >>> start = Event(name="sample.start", at=0.0, arm="v2", facts={"adapter": "openai:v2", "parameters": {"top_p": 0.9}})
    >>> sorted(request_attributes(start).items())[1:]
    [('gen_ai.provider.name', 'openai'), ('gen_ai.request.model', 'v2'), ('gen_ai.request.top_p', 0.9)]
    """
    provider, _, name = str(event.facts.get("adapter", "")).partition(":")
    parameters = event.facts.get("parameters") or {}
    sampling = {_PARAMETERS[key]: value for key, value in parameters.items() if key in _PARAMETERS}
    return {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.provider.name": provider or "unknown",
        "gen_ai.request.model": name or event.arm,
        **flatten(sampling),
    }


def response_attributes(event: Event) -> dict[str, Any]:
    """Return the attributes of a reply, from the facts of a `request.stop` event.

    >>> response_attributes(Event(name="request.stop", at=0.0, facts={"finish": "stop", "output_tokens": 3}))
    {'gen_ai.usage.output_tokens': 3, 'gen_ai.response.finish_reasons': ('stop',)}
    """
    facts = event.facts
    attributes = {name: facts[key] for key, name in _RESPONSE.items() if facts.get(key) not in (None, "")}
    if facts.get("finish"):
        attributes["gen_ai.response.finish_reasons"] = (str(facts["finish"]),)
    if facts.get("error") is not None:
        attributes["error.type"] = str(facts["error"])
    return attributes


def flatten(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as attributes: None is left out, and values that an attribute cannot hold become JSON.

    >>> flatten({"a": 1, "b": None, "c": ["x", "y"], "d": {"e": 2}})
    {'a': 1, 'c': ('x', 'y'), 'd': '{"e": 2}'}
    """
    return {name: _value(value) for name, value in facts.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return json.dumps(value, default=repr)
