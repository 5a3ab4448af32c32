"""Server-sent events, read as a client reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """One event: its name, which may be empty, and its data as JSON, or as text where that is none."""

    name: str
    data: Any


def read_events(stream: bytes) -> list[Event]:
    """Return the events of a whole stream; each has to end with an empty line."""
    *blocks, rest = stream.decode().split("\n\n")
    assert rest == ""
    return [_read_event(block) for block in blocks]


def _read_event(block: str) -> Event:
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    data = fields.pop("data")
    name = fields.pop("event", "")
    assert not fields
    return Event(name, data if data == "[DONE]" else json.loads(data))
