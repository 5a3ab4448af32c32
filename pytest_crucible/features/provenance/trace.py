"""Record decisions while a sample is sent or scored, and read those that a model states in its reply.

    with trace.step("choose"):
        first = trace.decision("binary search", over=["scan"], because="sorted", confidence=0.8)
        trace.decision("scan", because="only 9 rows", revises=first)
    reply = await sampler.generate(trace.prompt(sample.input))
    return trace.read(reply)

Tasks and threads that a sample starts record for that sample. Outside a sample nothing is recorded, and nothing is raised.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from types import TracebackType
from typing import Any, TypeVar

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.parser import REQUEST, ParsedReply, parse_events
from pytest_crucible.features.provenance.tables import trace_events
from pytest_crucible.features.provenance.threads import STAGE, carry_replies
from pytest_crucible.metrics.models.scorers import ScoredReply, current_reply
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import describe_type, suggest
from pytest_crucible.stats.number_format import quantity

__all__ = ["decision", "prompt", "read", "step"]

Events = list[Mapping[str, Any]]
Text = TypeVar("Text", str, Reply)

_LOCK = threading.Lock()
"""Threads of one sample number their events in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedDecision:
    """A decision that was recorded; a later one may name it in `revises`."""

    number: int
    """Counts the events of the reply from 1; 0 outside a sample."""
    sample: str
    events: Events | None
    """The events of the reply; None outside a sample."""


def decision(
    text: str,
    over: Iterable[str] | None = (),
    because: str | None = "",
    confidence: float | None = None,
    kind: str = kinds.DEFAULT,
    revises: RecordedDecision | None = None,
) -> RecordedDecision:
    """Record a decision, and return what the argument `revises` of a later one takes.

    `over` are the alternatives that were rejected; `confidence` is from 0 to 1, None where it is unknown. Raises ValueError for
    another number, for alternatives that are no texts, for an unknown kind, and where `revises` is a decision of another sample.
    """
    reply = current_reply()
    events = _events_of(reply)
    row = {
        "kind": _checked_kind(kind),
        "decision": str(text),
        "rejected": _checked_alternatives(over),
        "because": "" if because is None else str(because),
        "confidence": _checked_confidence(confidence),
        "revises": _checked_number(revises, events, reply.sample),
    }
    return RecordedDecision(_add(reply, events, (row,)), reply.sample, events)


class step:  # noqa: N801 - it is used as a function is
    """Records that a stage starts and completes: `with trace.step("choose"):`. Decisions within it have its name."""

    __slots__ = ("_before", "_events", "_name", "_number", "_reply")

    def __init__(self, name: str) -> None:
        self._name = str(name)

    def __enter__(self) -> None:
        self._reply, self._before = current_reply(), STAGE.get()
        self._events = _events_of(self._reply)
        self._number = _add(self._reply, self._events, ({"kind": kinds.STAGE_STARTED, "decision": self._name},))
        outer = _stage_within(self._events)
        STAGE.set((self._events, f"{outer}/{self._name}" if outer else self._name))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STAGE.set(self._before)
        because = "" if error is None else f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
        row = {"kind": kinds.STAGE_COMPLETED, "decision": self._name, "because": because, "parent": self._number}
        _add(self._reply, self._events, (row,))


def prompt(input: str | Sequence[Any]) -> str | list[Any]:
    """Return a prompt that also asks the model to state its decisions in <event> tags: a text, or messages.

    Of messages the last one of the user is extended. Raises ValueError for anything else.
    """
    if isinstance(input, str):
        return f"{input}\n\n{REQUEST}"
    messages = [*input] if isinstance(input, list | tuple) else []
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, Mapping) and message.get("role") == "user":
            messages[place] = {**message, "content": _add_request(message.get("content"))}
            return messages
    raise ValueError(f"trace.prompt({describe_type(input)}): expected a text, or messages with one of the user")


def _add_request(content: Any) -> Any:
    return [*content, {"type": "text", "text": REQUEST}] if isinstance(content, list) else f"{content}\n\n{REQUEST}"


def read(reply: Text) -> Text:
    """Record what a model states in <event> tags as its claims; return the reply without these events.

    A tag that is not closed stays in the text, and is counted. Raises ValueError for anything but a Reply or a text.
    """
    text: Any = reply.text if isinstance(reply, Reply) else reply
    if not isinstance(text, str):
        raise ValueError(f"trace.read({describe_type(reply)}): expected a Reply or a text")
    parsed = parse_events(text)
    current = current_reply()
    _add_claims(current, _events_of(current), parsed)
    if not parsed.events:
        return reply
    if not isinstance(reply, Reply):
        return parsed.text
    return replace(reply, text=parsed.text, value=parsed.text if reply.value == text else reply.value)


def _add_claims(reply: ScoredReply, events: Events | None, parsed: ParsedReply) -> None:
    claims = [
        {
            "kind": event.kind,
            "decision": event.decision,
            "rejected": [*event.over],
            "because": event.because,
            "confidence": event.confidence,
            "parent": event.parent,
            "is_claim": True,
        }
        for event in parsed.events
    ]
    if parsed.unclosed:
        note = f"{quantity(parsed.unclosed, '<event> tag')} without an end: not read"
        claims.append({"kind": kinds.UNCLOSED, "decision": note})
    _add(reply, events, claims, nested=True)


def _events_of(reply: ScoredReply) -> Events | None:
    """Return the list that the events of a reply are added to; None outside a sample."""
    return None if reply.feature_rows is None else reply.feature_rows.setdefault(trace_events.name, [])


def _stage_within(events: Events | None) -> str:
    """Return the stages around; empty for those of another reply, which a task may have inherited."""
    of, stage = STAGE.get()
    return stage if of is events else ""


def _add(reply: ScoredReply, events: Events | None, rows: Sequence[Mapping[str, Any]], *, nested: bool = False) -> int:
    """Add events; return the number of the first. If they are `nested`, their parents count these rows from 1."""
    if events is None or not rows:
        return 0
    shared = {**_NOTHING, "stage": _stage_within(events) or None, "calls": len(reply.calls or ()), "at": time.time()}
    with _LOCK:
        before = len(events)
        for number, row in enumerate(rows, start=before + 1):
            parent = row.get("parent")
            parent = parent + before if nested and parent is not None else parent
            events.append({**shared, **row, "number": number, "parent": parent})
    return before + 1


_NOTHING: Mapping[str, Any] = {
    "rejected": None,
    "because": None,
    "confidence": None,
    "revises": None,
    "is_claim": False,
}


def _checked_kind(kind: str) -> str:
    if kind not in kinds.DECISIONS:
        names = f"a decision is one of {', '.join(kinds.DECISIONS)}"
        raise ValueError(f"kind={kind!r}: {suggest(str(kind), kinds.DECISIONS, always=names)}")
    return kind


def _checked_alternatives(over: Any) -> list[str]:
    if over is None or isinstance(over, str):
        return [over] if over else []
    if not isinstance(over, Iterable):
        raise ValueError(f'over={over!r:.60}: expected the rejected alternatives, for example ["scan"]')
    return [*map(str, over)]


def _checked_confidence(confidence: Any) -> float | None:
    if confidence is None:
        return None
    number = float(confidence) if isinstance(confidence, Real) and not isinstance(confidence, bool) else math.nan
    if not 0 <= number <= 1:
        raise ValueError(f"confidence={confidence!r}: expected a number from 0 to 1, for example 0.7")
    return number


def _checked_number(revises: RecordedDecision | None, events: Events | None, sample: str) -> int | None:
    if revises is None or events is None:
        return None
    if not isinstance(revises, RecordedDecision):
        raise ValueError(f"revises={revises!r:.60}: pass what trace.decision returned for an earlier one")
    if revises.events is events:
        return revises.number
    if revises.events is None:
        origin = "that was recorded outside a sample"
    else:
        origin = f"of sample {revises.sample}" if revises.sample != sample else f"of another reply to sample {sample}"
    raise ValueError(f"revises= names a decision {origin}: pass an earlier one of sample {sample}")


if current_reply().feature_rows is not None:
    # Imported by a sample: the session began before.
    carry_replies()
