"""Fields of requests that are read alike in all formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_crucible.local_model.server.transport import Refusal

PROVIDER_ONLY = frozenset(
    [
        *("store", "metadata", "user", "safety_identifier", "service_tier", "stream_options", "include", "truncation"),
        *(
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "prediction",
            "background",
            "moderation",
            "client_metadata",
            "context_management",
        ),
    ]
)
"""Parameters for the provider's own service: its storage, bills, caches and streams. They do not change a reply here."""


def read_parameters(body: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """Return the parameters that are set, without those fields and without what is for the provider alone.

    An empty list, of tools or stops, is not set: servers refuse it, and some clients send it.
    """
    left_out = PROVIDER_ONLY.union(fields)
    return {name: value for name, value in body.items() if value not in (None, []) and name not in left_out}


def read_model(body: Mapping[str, Any]) -> str:
    """Return the client's name of the model. Raises Refusal without one."""
    model = body.get("model")
    if not isinstance(model, str):
        raise Refusal(f"model must be a text, not {_shorten(model)}: any name is accepted")
    return model


def read_objects(value: Any, name: str) -> list[dict[str, Any]]:
    """Return a list of JSON objects. Raises Refusal for anything else."""
    # Of JSON's own types: of an abstract class, each of a hundred messages would take half a microsecond.
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Refusal(f"{name} must be a list of objects, not {_shorten(value)}")
    return [dict(item) for item in value]


def read_part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object within an object; an empty one where it is not set. Raises Refusal for anything else."""
    value = body.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise Refusal(f"{name} must be an object, not {_shorten(value)}")
    return value or {}


def read_field(item: Mapping[str, Any], name: str, where: str) -> str:
    """Return a text within an object. Raises Refusal without it."""
    value = item.get(name)
    if not isinstance(value, str):
        raise Refusal(f"{where}: {name} must be a text, not {_shorten(value)}")
    return value


def refuse_kind(kind: Any, where: str, expected: Iterable[str]) -> Refusal:
    """Return the refusal of a part or a tool of a type that is not served."""
    return Refusal(f"{where} has the type {_shorten(kind)}, which is not served here: use {', '.join(expected)}")


def _shorten(value: Any) -> str:
    return repr(value)[:80]
