"""Reads what happened to a sample: calls, requests and other events, votes, decisions and scores, in the order of time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_decisions import load_decisions
from pytest_crucible.features.provenance.timeline import Step, StepKind, Timeline, steps_of_decisions
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import HELPERS, JUDGE, Conversation, Plan, StoredCall, Unit
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.report.conversations import parameter_text
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.calls import unknown_calls
from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.database import from_json
from pytest_crucible.store.reply_facts import ReplyFacts, ReplyRow, load_reply_facts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_sample_ids, find_position, samples


def load_timelines(store: RunStore, run: str, sample: str, *, arm: str | None = None) -> list[Timeline]:
    """Return a timeline for each reply to a sample: by experiment, variant, arm and repeat.

    `run` is a name for `find_run`. With `arm`, only those of this arm. Raises SpecError for an unknown run, sample or arm.
    """
    full = store.find_run(run)
    timelines: list[Timeline] = []
    arms: dict[str, None] = {}
    for key, plan, _ in store.all_experiments(full):
        position = find_position(store, plan.dataset_sha256, sample)
        if position is not None and store.has_arms(key):
            arms |= dict.fromkeys(each.name for each in plan.arms)
            timelines += [each for _, each in experiment_timelines(store, full, key, plan, position, arm)]
    if not arms:
        raise SpecError(f"run {full} has no sample {sample!r}: {near_sample(store, full, sample)}")
    check_arm(full, arm, arms)
    return timelines


def check_arm(run: str, arm: str | None, arms: Collection[str]) -> None:
    """Raise SpecError for an arm that is not one of the run's; None is all of them."""
    if arm is not None and arm not in arms:
        hint = suggest(arm, arms, otherwise=f"it has {', '.join(dict.fromkeys(arms))}")
        raise SpecError(f"run {run} has no arm {arm!r}: {hint}")


def near_sample(store: RunStore, run: str, sample: str) -> str:
    """Return which sample of a run was meant, or its first one."""
    plans = {plan.dataset_sha256 for _, plan, _ in store.all_experiments(run)}
    ids = [name for dataset in plans for name in all_sample_ids(store, dataset)]
    first = f"the first of its {len(ids):,} samples is {ids[0]!r:.200}" if ids else "none of its experiments began"
    return suggest(sample, ids, otherwise=first)


def experiment_timelines(
    store: RunStore, run: str, experiment: int, plan: Plan, position: int, arm: str | None = None
) -> Iterator[tuple[Unit, Timeline]]:
    """Yield a timeline for each reply to a sample of one experiment, with its unit. With `arm`, only those of this arm."""
    sample = samples(store, plan.dataset_sha256, [position])[position].id
    events = load_sample_events(store, run, plan.nodeid, sample)
    unknown, adapters = unknown_calls(store, run), _adapter_parameters(store, run)
    chains = load_decisions(store, run, sample=sample, arm=arm, experiment=plan.nodeid)
    decisions = {(chain.arm, chain.variant, chain.repeat): chain.decisions for chain in chains}
    rows: dict[tuple[int, int], defaultdict[int, ReplyFacts]] = {}
    for conversation in load_conversations(store, experiment, plan, position):
        if arm not in (None, conversation.arm):
            continue
        unit, planned = conversation.unit, plan.arms[conversation.unit.arm]
        draws = plan.draws(unit.arm)
        twin = draws.twin(unit.variant)
        if (unit.arm, twin) not in rows:
            rows[unit.arm, twin] = load_reply_facts(store, experiment, plan, unit.arm, twin, position)
        variant, place = plan.variant_name(twin), twin * draws.size + unit.repeat
        own = [event for event in events if event.repeat == place and event.arm == conversation.arm]
        chain = decisions.get((conversation.arm, variant, unit.repeat), ())
        yield (
            unit,
            Timeline(
                run=run,
                experiment=plan.nodeid,
                arm=conversation.arm,
                sample=sample,
                repeat=unit.repeat,
                variant=variant,
                adapter=planned.adapter,
                parameters=planned.parameters,
                steps=_steps(
                    run,
                    conversation,
                    Parameters(planned.parameters, adapters),
                    own,
                    chain,
                    rows[unit.arm, twin][unit.repeat],
                ),
                unknown=unknown,
            ),
        )


def _adapter_parameters(store: RunStore, run: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the sampling parameters of the project's adapters by name, as the run's manifest has them."""
    adapters = (store.run(run)["manifest"] or {}).get("adapters") or {}
    return {name: adapter.get("parameters") or {} for name, adapter in adapters.items()}


def _steps(
    run: str,
    conversation: Conversation,
    parameters: Parameters,
    events: Sequence[StoredEvent],
    decisions: Sequence[Decision],
    rows: ReplyFacts,
) -> tuple[Step, ...]:
    """Return the steps of one reply in the order of time."""
    own = [call.call for call in conversation.calls if not call.member]
    # Formats before 11 had no numbers of calls: then all events belong to a single call.
    only_call = own[0] if len(own) == 1 and not any(event.call for event in events) else None
    hits = [event for event in events if event.name == "cache.hit"]
    calls = [step for call in conversation.calls for step in call_steps(run, call, parameters, hits)]
    ordered = order_steps(calls, [*event_steps(events, only_call=only_call)], decisions)
    return (
        *ordered,
        *score_steps(conversation.scores, rows.reasons, rows.lost),
        end_step(conversation, rows.reply),
    )


_Part = tuple[int | None, str]
"""A call and its member."""


def order_steps(calls: Sequence[Step], events: Sequence[Step], decisions: Sequence[Decision]) -> list[Step]:
    """Return the steps of calls, of their events and of decisions in the order of time.

    A call begins with its first event. One without any, as of a copied reply, follows the calls and the decisions before it.
    """
    of_decisions = [(step.at or -math.inf, 0, step) for step in steps_of_decisions(decisions)]
    of_calls = [(start, 1, step) for start, step in zip(_starts(calls, events, decisions), calls, strict=True)]
    of_events = [(step.at or -math.inf, 2, step) for step in events]
    # At one time, a call comes before its events and after what was decided before it.
    return [step for _, _, step in sorted([*of_decisions, *of_calls, *of_events], key=lambda entry: entry[:2])]


def _starts(calls: Sequence[Step], events: Sequence[Step], decisions: Sequence[Decision]) -> Iterator[float]:
    """Yield when each step of a call began."""
    began = _first_times([*events, *calls])
    latest = -math.inf
    for step in calls:
        before = [each.at for each in decisions if each.at is not None and each.calls < (step.call or 0)]
        latest = step.at or began.get((step.call, step.member), max(latest, *before, -math.inf))
        yield latest


def _first_times(steps: Sequence[Step]) -> dict[_Part, float]:
    """Return when the first step of each call and each member's part in it began."""
    began: dict[_Part, float] = {}
    for step in steps:
        if step.at is not None:
            # A call of an ensemble begins with the first of its members.
            for part in {(step.call, step.member), (step.call, "")}:
                began[part] = min(began.get(part, math.inf), step.at - (step.seconds or 0.0))
    return began


@dataclass(frozen=True, slots=True)
class Parameters:
    """The sampling parameters of an arm, and those of other adapters by name."""

    arm: Mapping[str, Any]
    adapters: Mapping[str, Mapping[str, Any]]

    def of(self, call: StoredCall) -> Mapping[str, Any] | None:
        """Return the parameters of a call; None where they are not known."""
        if call.is_judge:
            return call.parameters or self.adapters.get(call.member.removeprefix(JUDGE))
        own = self.arm if call.parameters is None else call.parameters
        # What is sent to a member are its own, and over them those of the ensemble and the call.
        return {**self.adapters.get(call.member, {}), **own} if call.member else own


def call_steps(run: str, call: StoredCall, parameters: Parameters, hits: Sequence[StoredEvent]) -> Iterator[Step]:
    """Yield the step of a call, or of a member's part in it, and the run whose reply it got, if it was not requested.

    `hits` are the events of replies that the cache had.
    """
    kind: StepKind = "member" if call.member and not call.is_judge else "call"
    sent = parameters.of(call)
    facts: dict[str, Any] = {
        "prompt": call.messages,
        "parameters": sent,
        "reply": call.text,
        "tool_calls": list(call.tool_calls) or None,
        "reasoning": call.reasoning or None,
        "error": call.error or None,
        "model": call.answered_by[0] or None if call.answered_by else None,
    }
    yield Step(kind=kind, title=_call_title(call), call=call.call, member=call.member, facts=_without_none(facts))
    if call.cached or call.paid_by is not None:
        yield _cached_step(run, call, hits)


def _call_title(call: StoredCall) -> str:
    name = f"call {call.call}" + (f", {call.member}" if call.member else "")
    if call.messages is None and not call.is_recorded:
        return f"{name}: its prompt is unknown"
    messages = quantity(len(call.messages), "message") if isinstance(call.messages, list) else "1 message"
    parameters = (f"{key} {parameter_text(key, value)}" for key, value in (call.parameters or {}).items())
    return ", ".join([f"{name}: {messages}", *parameters])


def _cached_step(run: str, call: StoredCall, hits: Sequence[StoredEvent]) -> Step:
    """Return the step that names the run which has requested the reply."""
    # Null is this run, empty an unknown one: of replies that were cached or stored before format 4.
    paid_by = run if call.paid_by is None else call.paid_by or None
    place = "from the reply cache" if call.cached else "stored before"
    hit = next((hit for hit in hits if (hit.call, hit.member) == (call.call, call.member)), None)
    facts = {"paid_by": paid_by, **({} if hit is None else hit.facts)}
    of = "this run" if paid_by == run else "an unknown run" if paid_by is None else f"run {paid_by}"
    return Step(
        kind="cached",
        title=f"reply {place}: requested in {of}",
        at=None if hit is None else hit.at,
        call=call.call,
        member=call.member,
        facts=facts,
    )


def score_steps(
    scores: Mapping[str, Any], reasons: Mapping[str, str], lost: Mapping[str, tuple[str, str]]
) -> Iterator[Step]:
    """Yield a step for each score, those that are lost after the others.

    `reasons` say why metrics do not apply, `lost` has reason and detail of lost values; all by metric.
    """
    for metric, value in scores.items():
        facts = {"metric": metric, "value": value, **({"reason": reasons[metric]} if metric in reasons else {})}
        yield Step(kind="score", title=f"{metric} {_value_text(value, reasons.get(metric, ''))}", facts=facts)
    for metric, (reason, detail) in lost.items():
        facts = {"metric": metric, "value": None, "lost": reason, "detail": detail}
        yield Step(kind="score", title=f"{metric} is lost: {detail.partition(chr(10))[0] or reason}", facts=facts)


def _value_text(value: Any, reason: str) -> str:
    if value is None:
        return f"does not apply{f': {reason}' if reason else ''}"
    return f"= {value:g}" if isinstance(value, float) else f"= {value}"


def end_step(conversation: Conversation, row: ReplyRow) -> Step:
    """Return the last step: how the reply ended."""
    detail = conversation.detail.partition("\n")[0]
    cut = f", finish {row.finish}" if row.finish not in (None, "stop") else ""
    facts = {
        "state": conversation.state,
        "detail": conversation.detail or None,
        "reply": None if conversation.state in ("lost", "skipped") else conversation.reply,
        **{name: getattr(row, name) for name in row.__slots__},
    }
    title = f"{conversation.state}{cut}{f': {detail}' if detail else ''}"
    return Step(kind="end", title=title, facts=_without_none(facts))


def _without_none(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


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
