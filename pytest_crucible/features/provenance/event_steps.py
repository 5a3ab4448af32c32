"""The events of one reply, and their steps on its timeline: waits, requests, retries, hedges and votes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.provenance.timeline import Step, StepKind
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import HELPERS
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event about a sample."""

    name: str
    arm: str
    """The arm that replied, also for a judge's request about its reply."""
    member: str
    """The member of an ensemble, or `judge:NAME`."""
    repeat: int
    """The place of the reply among all of its arm to the sample, those to variants included."""
    at: float
    seconds: float | None
    call: int | None
    request: int | None
    facts: Mapping[str, Any]

    @property
    def began(self) -> float:
        return self.at - (self.seconds or 0.0)


def load_sample_events(store: RunStore, run: str, nodeid: str, sample: str) -> list[StoredEvent]:
    """Return the events about a sample in an experiment, in the order of writing."""
    query = """
        SELECT
            name, arm, epoch, at, seconds, call, request, facts,
            error, input_tokens, output_tokens, first_token_s, cost_usd
        FROM events WHERE run = :run AND experiment = :nodeid AND sample = :sample ORDER BY id
    """
    return [_read(*row) for row in store.rows(query, run=run, nodeid=nodeid, sample=sample)]


_AMOUNTS = ("error", "input_tokens", "output_tokens", "first_token_s", "usd")


def _read(
    name: str,
    arm: str,
    repeat: int,
    at: float,
    seconds: float | None,
    call: int | None,
    request: int | None,
    facts: str | None,
    *amounts: Any,
) -> StoredEvent:
    stored_amounts = {amount: value for amount, value in zip(_AMOUNTS, amounts, strict=True) if value is not None}
    rest = dict(from_json(facts) or {})
    # The member of a vote is its winner's.
    member = "" if name == "vote" else str(rest.pop("member", ""))
    is_helper = arm.startswith(HELPERS)
    return StoredEvent(
        name=name,
        arm=str(rest.pop("scored_arm", "")) if is_helper else arm,
        member=arm if is_helper else member,
        repeat=repeat,
        at=at,
        seconds=seconds,
        call=call,
        request=request,
        facts={**rest, **stored_amounts},
    )


_KINDS: Mapping[str, StepKind] = {
    "request.stop": "request",
    "request.retry": "retry",
    "limiter.wait": "wait",
    "hedge.fired": "hedge",
    "hedge.won": "hedge",
    "vote": "vote",
}


def event_steps(events: Sequence[StoredEvent], *, only_call: int | None) -> Iterator[Step]:
    """Yield the steps of events, without those that a call shows itself, such as a hit of the reply cache.

    `only_call` is the call of events that name none, as in formats before 11; None where there are several calls.
    """
    for event in events:
        if event.name in _KINDS:
            yield Step(
                kind=_KINDS[event.name],
                title=_title(event),
                at=event.at,
                seconds=event.seconds,
                call=event.call or only_call,
                request=event.request,
                member=event.member,
                facts={"event": event.name, **event.facts},
            )


def _title(event: StoredEvent) -> str:
    facts, seconds = event.facts, event.seconds or 0.0
    number = "" if event.request is None else f" {event.request}"
    by = f"{event.member}, " if event.member else ""
    match event.name:
        case "request.stop":
            return (
                f"{by}request{number}: {facts.get('error') or facts.get('finish') or 'answered'} after {seconds:.3g} s"
            )
        case "request.retry":
            return f"{by}sent again in {facts.get('wait_s', 0.0):.3g} s, after {facts.get('kind', 'a failure')}"
        case "limiter.wait":
            return f"{by}waited {seconds:.3g} s for its turn"
        case "hedge.fired":
            return f"{by}request{number} sent as well, after {facts.get('delay_s', 0.0):.3g} s without a reply"
        case "hedge.won":
            return f"{by}request{number} answered first"
    return _vote_title(facts)


def _vote_title(facts: Mapping[str, Any]) -> str:
    """Return what the members of an ensemble have decided."""
    members = f"of {len(facts['queried'])} members" if isinstance(facts.get("queried"), list) else "of the members"
    if facts.get("member") is None:
        return f"vote {members}: no answer"
    share = f", {facts['consensus']:.0%} of the votes" if isinstance(facts.get("consensus"), int | float) else ""
    return f"vote {members}: the answer of {facts['member']}{share}"
