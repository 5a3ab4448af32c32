"""Reads what happened to a sample: calls, requests, waits, votes, decisions and scores, in the order of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.features.provenance.decision_steps import steps_of_decisions
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_decisions import load_decisions
from pytest_crucible.features.provenance.timeline import Step, StepKind, Timeline
from pytest_crucible.records import HELPERS, Conversation, Plan, StoredCall
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_sample_ids, find_position, load_conversations


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
            timelines += _of_experiment(store, full, key, plan, position, sample, arm)
    if not arms:
        raise SpecError(f"run {full} has no sample {sample!r}: {_near_sample(store, full, sample)}")
    if arm is not None and arm not in arms:
        hint = suggest(arm, arms, otherwise=f"it has {', '.join(arms)}")
        raise SpecError(f"run {full} has no arm {arm!r}: {hint}")
    return timelines


def _near_sample(store: RunStore, run: str, sample: str) -> str:
    plans = {plan.dataset_sha256 for _, plan, _ in store.all_experiments(run)}
    ids = [name for dataset in plans for name in all_sample_ids(store, dataset)]
    first = f"the first of its {len(ids):,} samples is {ids[0]!r:.200}" if ids else "none of its experiments began"
    return suggest(sample, ids, otherwise=first)


def _of_experiment(
    store: RunStore, run: str, key: int, plan: Plan, position: int, sample: str, arm: str | None
) -> Iterator[Timeline]:
    events = _load_events(store, run, plan.nodeid, sample)
    unknown = _unknown(store, run, plan)
    chains = load_decisions(store, run, sample=sample, arm=arm, experiment=plan.nodeid)
    decisions = {(chain.arm, chain.variant, chain.repeat): chain.decisions for chain in chains}
    for conversation in load_conversations(store, key, plan, position):
        if arm is None or conversation.arm == arm:
            variant = plan.variant_name(plan.draws(conversation.unit.arm).twin(conversation.unit.variant))
            chain = decisions.get((conversation.arm, variant, conversation.unit.repeat), ())
            yield Timeline(
                run=run,
                experiment=plan.nodeid,
                arm=conversation.arm,
                sample=sample,
                repeat=conversation.unit.repeat,
                variant=variant,
                steps=_steps(run, plan, conversation, events, chain),
                unknown=unknown,
            )


def _unknown(store: RunStore, run: str, plan: Plan) -> str:
    """Return why the calls of an experiment are not known; empty if they are."""
    if plan.is_imported:
        files = store.run(run)["environment"].get("imported") or [{}]
        return f"run {run} was imported from {files[0].get('harness') or 'another harness'}: its calls are unknown"
    return ""


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredEvent:
    arm: str
    repeat: int
    name: str
    at: float
    seconds: float | None
    error: str | None
    facts: Mapping[str, Any]


def _load_events(store: RunStore, run: str, nodeid: str, sample: str) -> list[_StoredEvent]:
    """Return the events about a sample, in the order of writing."""
    query = """
        SELECT arm, epoch, name, at, seconds, error, input_tokens, output_tokens, first_token_s, cost_usd, facts
        FROM events WHERE run = :run AND experiment = :nodeid AND sample = :sample ORDER BY id
    """
    events = []
    for arm, repeat, name, at, seconds, error, *amounts, facts in store.rows(
        query, run=run, nodeid=nodeid, sample=sample
    ):
        named = zip(("input_tokens", "output_tokens", "first_token_s", "usd"), amounts, strict=True)
        known = {amount: value for amount, value in named if value is not None}
        events.append(
            _StoredEvent(
                arm=arm,
                repeat=repeat,
                name=name,
                at=at,
                seconds=seconds,
                error=error,
                facts={**known, **(from_json(facts) or {})},
            )
        )
    return events


_KINDS: Mapping[str, StepKind] = {
    "request.stop": "request",
    "request.retry": "retry",
    "limiter.wait": "wait",
    "hedge.fired": "hedge",
    "hedge.won": "hedge",
    "vote": "vote",
}


def _event_step(event: _StoredEvent) -> Step | None:
    """Return the step of an event; None for those that a call shows by itself."""
    kind = _KINDS.get(event.name)
    if kind is None:
        return None
    facts = dict(event.facts)
    if event.error is not None:
        facts["error"] = event.error
    member = str(facts.pop("member", "")) if kind != "vote" else ""
    return Step(
        kind=kind,
        title=_event_title(event),
        at=event.at,
        seconds=event.seconds,
        member=event.arm if event.arm.startswith(HELPERS) else member,
        facts=facts,
    )


def _event_title(event: _StoredEvent) -> str:
    facts, seconds = event.facts, event.seconds or 0.0
    if event.name == "request.stop":
        return f"request: {event.error or facts.get('finish') or 'answered'} after {seconds:.3g} s"
    if event.name == "request.retry":
        return f"sent again in {facts.get('wait_s', 0.0):.3g} s, after {facts.get('kind')}"
    if event.name == "limiter.wait":
        return f"waited {seconds:.3g} s for its turn"
    if event.name == "hedge.fired":
        return f"second request sent, after {facts.get('delay_s', 0.0):.3g} s"
    if event.name == "hedge.won":
        return "the second request answered first"
    return f"vote: {facts.get('winner')} ({facts.get('consensus')} of the votes)"


# -- steps ------------------------------------------------------------------------------------------------------------


def _steps(
    run: str, plan: Plan, conversation: Conversation, events: Sequence[_StoredEvent], decisions: Sequence[Decision]
) -> tuple[Step, ...]:
    """Return the steps of one reply in the order of time; those without a time stand where they belong by their call."""
    unit = conversation.unit
    draws = plan.draws(unit.arm)
    place = draws.twin(unit.variant) * draws.size + unit.repeat
    own = [event for event in events if event.repeat == place and event.arm == conversation.arm]
    steps = [step for event in own if (step := _event_step(event)) is not None]
    calls = [step for call in conversation.calls for step in _call_steps(run, call)]
    return (*calls, *steps, *steps_of_decisions(decisions), *_score_steps(conversation), _end_step(conversation))


def _call_steps(run: str, call: StoredCall) -> Iterator[Step]:
    member = call.member
    kind: StepKind = "member" if member and not call.is_judge else "call"
    facts = {
        "prompt": call.messages,
        "parameters": call.parameters,
        "reply": call.text,
        "reasoning": call.reasoning,
        "error": call.error,
    }
    known = {name: value for name, value in facts.items() if value not in (None, "")}
    yield Step(kind=kind, title=_call_title(call), call=call.call, member=member, facts=known)
    if call.paid_by is not None:
        paid_by = call.paid_by or None
        title = f"reply of run {paid_by}" if paid_by else "reply of an earlier run, which is not known"
        yield Step(kind="cached", title=title, call=call.call, member=member, facts={"paid_by": paid_by})


def _call_title(call: StoredCall) -> str:
    name = f"call {call.call}" + (f", {call.member}" if call.member else "")
    sent = quantity(len(call.messages), "message") if isinstance(call.messages, list) else "1 message"
    return ", ".join([f"{name}: {sent}", *(f"{key} {value}" for key, value in (call.parameters or {}).items())])


def _score_steps(conversation: Conversation) -> Iterator[Step]:
    for metric, value in conversation.scores.items():
        shown = "not applicable" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        finite = None if isinstance(value, float) and not math.isfinite(value) else value
        yield Step(kind="score", title=f"{metric} = {shown}", facts={"metric": metric, "value": finite})


def _end_step(conversation: Conversation) -> Step:
    detail = conversation.detail.partition("\n")[0]
    facts = {"state": conversation.state, "detail": conversation.detail, "reply": conversation.reply}
    return Step(kind="end", title=f"{conversation.state}{f': {detail}' if detail else ''}", facts=facts)
