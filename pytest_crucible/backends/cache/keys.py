"""Cache keys: everything a reply depends on, without credentials.

the backend's identity   the model: a checkpoint, or a model's name and URL
input, parameters        the request: the prompt and the sampling parameters
sample, repeat, call     the draw: two samples with the same prompt, the repeats of a sample and a prompt sent twice in one
                         sample are independent draws, and must stay so; a later round is named, so that no reply of an
                         earlier one stands in for it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_crucible.records import Adapter, Request
from pytest_crucible.records.serialize import canonical

# Increased when the meaning of keys or stored replies changes, so that older entries are not found.
FORMAT = 1
# Settings and parameters that identify the caller. They never enter a key, not even hashed: hashes can be guessed.
CREDENTIALS = frozenset({"api_key", "authorization", "default_headers", "extra_headers", "headers"})


def reply_key(identity: str, request: Request) -> str | None:
    """Return the SHA-256 of a request, its model and its draw; None if it cannot be written as JSON.

    >>> request = Request(input="2 + 2", sample="a", repeat=0, parameters={"headers": {"Authorization": "a secret"}})
    >>> reply_key("v2", request) == reply_key("v2", Request(input="2 + 2", sample="a", repeat=0)) != reply_key("v1", request)
    True
    """
    parameters = without_credentials(request.parameters)
    try:
        draw = request.repeat if request.draw is None else request.draw
        text = canonical([FORMAT, identity, request.input, parameters, request.sample, draw, request.call])
    except TypeError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def settings_key(adapter: Adapter, *circumstances: Any) -> str:
    """Return a key that identifies an adapter without opening it.

    It covers the adapter's name and settings, and the `circumstances` that they depend on.
    """
    parts = [FORMAT, adapter.backend, adapter.name, without_credentials(adapter.options), circumstances]
    # default=repr: settings may hold paths or dates; only their equality matters here.
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def without_credentials(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings without credentials.

    >>> without_credentials({"model": "v2", "Headers": {"X-Key": "a secret"}})
    {'model': 'v2'}
    """
    if all(name not in CREDENTIALS for name in map(str.lower, settings)):
        return settings
    return {name: value for name, value in settings.items() if name.lower() not in CREDENTIALS}
