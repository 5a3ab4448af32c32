"""An event as a row: facts that are counted or summed have a column each, all others are JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from pytest_crucible.records import Event
from pytest_crucible.redaction import cleaned
from pytest_crucible.store.texts import storable
from pytest_crucible.wire import to_plain

Seen = dict[tuple[tuple[str, Any], ...], Any]
AMOUNTS = ("input_tokens", "output_tokens", "first_token_s", "cost_usd")
NOT_STORED = frozenset({"request.start", "sample.start", "sample.stop", "experiment.start", "experiment.stop"})
"""Told to listeners alone. `request.stop` says when a request began; samples and experiments have tables of their own."""


def event_rows(events: Iterable[tuple[str, Event]], hide: Callable[[str], str]) -> list[dict[str, Any]]:
    """Rows of the table `events`, of events with the run of each, without what `hide` takes out of texts.

    It never raises: what JSON cannot say is kept as its repr.

    >>> event = Event(name="request.stop", at=9.0, facts={"error": "429", "output_tokens": 3, "finish": "stop"})
    >>> [row] = event_rows([("run", event)], str)
    >>> row["error"], row["output_tokens"], row["facts"]
    ('429', 3, {'finish': 'stop'})
    """
    seen: Seen = {}
    return [_row(run, event, hide, seen) for run, event in events]


def _row(run: str, event: Event, hide: Callable[[str], str], seen: Seen) -> dict[str, Any]:
    """What others have said is in the facts; the run, the experiment and the arm are names of ours."""
    facts = dict(event.facts)
    amounts = [_amount(facts, name) for name in AMOUNTS]
    error = facts.pop("error", None)
    return {
        "run": run,
        "experiment": event.experiment,
        "arm": event.arm,
        "sample": storable(hide(event.sample)),
        "epoch": event.epoch,
        "name": event.name,
        "at": event.at,
        "seconds": event.seconds,
        "error": None if error is None else storable(hide(str(error))),
        **dict(zip(AMOUNTS, amounts, strict=True)),
        "facts": _facts(facts, hide, seen) if facts else None,
    }


def _amount(facts: dict[str, Any], name: str) -> int | float | None:
    """Taken out of the facts, unless it is no amount: then it stays there."""
    given = facts.get(name)
    if given is None or (type(given) in (int, float) and math.isfinite(given)):
        facts.pop(name, None)
        return given
    return None


def _facts(facts: dict[str, Any], hide: Callable[[str], str], seen: Seen) -> Any:
    """Most events of a batch say the same: how a reply ended. Texts that were `seen` need not be looked at again."""
    if set(map(type, facts.values())) != {str}:
        return cleaned(_plain(facts), hide)
    key = tuple(facts.items())
    if key not in seen:
        seen[key] = cleaned(_plain(facts), hide)
    return seen[key]


def _plain(facts: dict[str, Any]) -> Any:
    try:
        return to_plain(facts)
    except TypeError:
        return {str(name): repr(value) for name, value in facts.items()}
