"""Facts of stored replies beside their texts: ends, times, tokens, and reasons of scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.store.outcomes import of_arm, place_of
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRow:
    """The columns of a stored reply, without its text."""

    finish: str | None = None
    failure: str | None = None
    started: float | None = None
    latency_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    lost: str | None = None
    """Why the whole reply is lost."""


@dataclass(slots=True)
class ReplyFacts:
    """The rows of one reply that are neither calls nor scores."""

    reply: ReplyRow = field(default_factory=ReplyRow)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why metrics do not apply, by metric."""
    lost: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Reason and detail of lost values, by metric."""


def load_reply_facts(
    store: RunStore, experiment: int, plan: Plan, number: int, twin: int, position: int
) -> defaultdict[int, ReplyFacts]:
    """Return the facts of an arm's replies to a sample or its twin, by their places among these replies."""
    draws = plan.draws(number)
    facts: defaultdict[int, ReplyFacts] = defaultdict(ReplyFacts)

    def read(table: str, columns: str) -> Iterable[tuple[Any, ...]]:
        query = f"""
            SELECT {place_of(table, draws, twin)}, {columns} FROM {table} JOIN arms ON arms.id = {table}.arm
            WHERE {of_arm(twin)} AND position = :position
        """
        return store.rows(query, experiment=experiment, number=number, position=position)

    for place, *values in read("replies", "finish, failure, started, latency_s, input_tokens, output_tokens"):
        names = ("finish", "failure", "started", "latency_s", "input_tokens", "output_tokens")
        facts[place].reply = ReplyRow(**dict(zip(names, values, strict=True)))
    for place, metric, reason in read("observations", "metric, reason"):
        if reason:
            facts[place].reasons[metric] = reason
    for place, metric, reason, detail in read("lost", "metric, reason, detail"):
        if metric:
            facts[place].lost[metric] = reason, detail or ""
        else:
            facts[place].reply = ReplyRow(lost=reason)
    return facts
