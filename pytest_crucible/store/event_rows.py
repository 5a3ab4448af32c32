"""An event as a row: facts that are counted or summed have a column each, all others are JSON."""

from __future__ import annotations

import math
from typing import Any

from pytest_crucible.records import Event
from pytest_crucible.wire import to_plain

AMOUNTS = ("input_tokens", "output_tokens", "first_token_s", "cost_usd")
NOT_STORED = frozenset({"request.start", "sample.start", "sample.stop", "experiment.start", "experiment.stop"})
"""Told to listeners alone. `request.stop` says when a request began; samples and experiments have tables of their own."""


def event_row(run: str, event: Event) -> dict[str, Any]:
    """A row of the table `events`. It never raises: what JSON cannot say is kept as its repr.

    >>> row = event_row("run", Event(name="request.stop", at=9.0, facts={"error": "429", "output_tokens": 3, "finish": "stop"}))
    >>> row["error"], row["output_tokens"], row["facts"]
    ('429', 3, {'finish': 'stop'})
    """
    facts = dict(event.facts)
    row: dict[str, Any] = {name: _amount(facts, name) for name in AMOUNTS}
    error = facts.pop("error", None)
    row |= {
        "run": run,
        "experiment": event.experiment,
        "arm": event.arm,
        "sample": event.sample,
        "epoch": event.epoch,
        "name": event.name,
        "at": event.at,
        "seconds": event.seconds,
        "error": None if error is None else str(error),
        "facts": _plain(facts) if facts else None,
    }
    return row


def _amount(facts: dict[str, Any], name: str) -> int | float | None:
    """Taken out of the facts, unless it is no amount: then it stays there."""
    given = facts.get(name)
    if given is None or (type(given) in (int, float) and math.isfinite(given)):
        facts.pop(name, None)
        return given
    return None


def _plain(facts: dict[str, Any]) -> Any:
    try:
        return to_plain(facts)
    except TypeError:
        return {str(name): repr(value) for name, value in facts.items()}
