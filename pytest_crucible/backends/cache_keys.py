"""What replies are found by: everything that an answer depends on, and nothing that only opens the door to it.

the backend's identity   what answers: a checkpoint, a model's name and URL
input, parameters        what is asked, and how it is sampled
sample, epoch, call      whose answer it is: two samples that ask the same, the repeats of one sample, and the same
                         question asked twice by one of them are draws of their own, and stay so
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_crucible.records import Adapter, Request
from pytest_crucible.wire import canonical

FORMAT = 1
"""Raised when a key or what is kept under it comes to mean something else: then nothing older is found."""
UNSAID = frozenset({"api_key", "authorization", "default_headers", "extra_headers", "headers"})
"""Settings and parameters that say who asks: they are no part of a key, not even as a part of a hash."""


def reply_key(identity: str, request: Request) -> str | None:
    """The SHA-256 of what is asked, of whom and for whom; None where JSON cannot say it.

    >>> one = Request(input="2 + 2", sample="a", epoch=0, parameters={"headers": {"Authorization": "a secret"}})
    >>> reply_key("v2", one) == reply_key("v2", Request(input="2 + 2", sample="a", epoch=0)) != reply_key("v1", one)
    True
    """
    parameters = said(request.parameters)
    try:
        text = canonical([FORMAT, identity, request.input, parameters, request.sample, request.epoch, request.call])
    except TypeError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def settings_key(adapter: Adapter, *circumstances: Any) -> str:
    """What an adapter is recognised by without being opened: its name and settings, and on what else they depend."""
    told = [FORMAT, adapter.backend, adapter.name, said(adapter.options), circumstances]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=repr).encode()).hexdigest()


def said(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings without secrets.

    >>> said({"model": "v2", "Headers": {"X-Key": "a secret"}})
    {'model': 'v2'}
    """
    if all(name not in UNSAID for name in map(str.lower, settings)):
        return settings
    return {name: value for name, value in settings.items() if name.lower() not in UNSAID}
