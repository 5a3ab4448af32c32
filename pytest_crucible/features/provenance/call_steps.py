"""The calls of one reply, its scores and its end, as steps on its timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.provenance.event_steps import StoredEvent
from pytest_crucible.features.provenance.timeline import Step, StepKind
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import JUDGE, Conversation, StoredCall
from pytest_crucible.report.conversations import parameter_text
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.reply_facts import ReplyRow


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
