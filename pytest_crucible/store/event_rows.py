"""Events as rows: facts that are counted or summed have a column each, all others are JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from pytest_crucible.records import Event
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.store.sanitize import sanitize_text

Redacted = dict[tuple[tuple[str, Any], ...], Any]
AMOUNTS = ("input_tokens", "output_tokens", "first_token_s", "cost_usd")
NOT_STORED = frozenset({"request.start", "sample.start", "sample.stop", "experiment.start", "experiment.stop"})
"""Emitted to listeners only: `request.stop` has the time of a request; samples and experiments have tables of their own."""


def event_rows(
    events: Iterable[tuple[str, Event]], hide: Callable[[str], str], hide_id: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return rows of the table `events` for (run, event) pairs. `hide` redacts their texts, `hide_id` ids of samples.

    It never raises: a fact that JSON has no form for is stored as its repr.

    >>> event = Event(name="request.stop", at=9.0, facts={"error": "429", "output_tokens": 3, "finish": "stop"})
    >>> [row] = event_rows([("run", event)], str, str)
    >>> row["error"], row["output_tokens"], row["facts"]
    ('429', 3, {'finish': 'stop'})
    """
    redacted: Redacted = {}
    return [_row(run, event, hide, hide_id, redacted) for run, event in events]


def _row(
    run: str, event: Event, hide: Callable[[str], str], hide_id: Callable[[str], str], redacted: Redacted
) -> dict[str, Any]:
    """Return the row of one event. Only its sample, error and facts may hold texts of a server, which are redacted."""
    facts = dict(event.facts)
    error = facts.pop("error", None)
    row = {
        "run": run,
        "experiment": event.experiment,
        "arm": event.arm,
        "sample": hide_id(sanitize_text(event.sample)),
        "epoch": event.repeat,
        "name": event.name,
        "at": event.at,
        "seconds": event.seconds,
        "error": None if error is None else sanitize_text(hide(str(error))),
    }
    for name in AMOUNTS:
        row[name] = _pop_amount(facts, name)
    row["facts"] = _facts(facts, hide, redacted) if facts else None
    return row


def _pop_amount(facts: dict[str, Any], name: str) -> Any:
    """Pop an amount from the facts. Anything but a finite number stays in the facts."""
    amount = facts.pop(name, None)
    if amount is None or (type(amount) in (int, float) and math.isfinite(amount)):
        return amount
    facts[name] = amount
    return None


def _facts(facts: dict[str, Any], hide: Callable[[str], str], redacted: Redacted) -> Any:
    """Return redacted facts. Most events of a batch have equal ones, such as how a reply ended: those are redacted once."""
    if set(map(type, facts.values())) != {str}:
        return redact(_plain(facts), hide)
    key = tuple(facts.items())
    if key not in redacted:
        redacted[key] = redact(_plain(facts), hide)
    return redacted[key]


def _plain(facts: dict[str, Any]) -> Any:
    try:
        return to_plain(facts)
    except TypeError:
        return {str(name): repr(value) for name, value in facts.items()}
