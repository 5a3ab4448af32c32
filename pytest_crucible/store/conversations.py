"""Reading conversations back: the messages to each arm for one sample, turn by turn, and its replies."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Table, select

from pytest_crucible.records import ArmReply, Conversation, Draws, Plan, StoredCall, Unit
from pytest_crucible.records.outcomes import reasoning_text
from pytest_crucible.store import schema
from pytest_crucible.store.outcomes import of_arm, place_of
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_exchanges, load_twins
from pytest_crucible.store.texts import (
    REFERENCES,
    SHORTEST_REFERENCE,
    messages_of,
    referred_text,
    sample_texts,
    stored_text,
    text_form,
    unpack_form,
)


def load_conversations(store: RunStore, experiment: int, plan: Plan, position: int) -> list[Conversation]:
    """Return the conversations about the sample at a position: by variant, then by arm, and then by repeat."""
    return [
        conversation
        for twin in range(1 + len(plan.variants))
        for conversation in _of_twin(store, experiment, plan, position, twin)
    ]


def _of_twin(store: RunStore, experiment: int, plan: Plan, position: int, twin: int) -> Iterator[Conversation]:
    """Yield the conversations about an original sample, or about its twin in a variant."""
    [exchange] = load_exchanges(store, experiment, plan, [position], twin)
    sample = load_sample(store, plan.dataset_sha256, position)
    if twin:
        sent = load_twins(store, plan.variants[twin - 1].sha256, position).get(position)
        sample = sample if sent is None else {**sample, "input": sent["input"]}
    for number, (arm, replies) in enumerate(zip(plan.arms, exchange.replies, strict=True)):
        draws = plan.draws(number)
        calls = _calls(store, experiment, number, sample, draws, twin)
        scores = _scores(store, experiment, number, position, draws, twin)
        for reply in replies:
            unit = Unit(position, twin * draws.prompts, number, reply.repeat)
            draw = plan.draw_text(number, twin * draws.size + reply.repeat)
            yield _conversation(unit, arm.name, reply, calls, scores, draw, sample["input"] if twin else None)


def load_sample(store: RunStore, dataset: str, position: int) -> Mapping[str, Any]:
    """Return a stored sample: sample_id, sample_group, input, expected and metadata."""
    table = schema.samples
    query = select(table).where(table.c.dataset == dataset, table.c.position == position)
    return next(row._asdict() for row in list(store.rows(query)))


def find_position(store: RunStore, dataset: str, sample: str) -> int | None:
    """Return the position of the sample with this id; None if the dataset has none."""
    table = schema.samples
    query = select(table.c.position).where(table.c.dataset == dataset, table.c.sample_id == sample)
    position: int | None = store.scalar(query)
    return position


def _conversation(
    unit: Unit,
    arm: str,
    reply: ArmReply,
    calls: Mapping[int, Sequence[StoredCall]],
    scores: Mapping[int, Mapping[str, Any]],
    draw: str,
    input: Any,
) -> Conversation:
    return Conversation(
        unit=unit,
        arm=arm,
        state=reply.state,
        detail=reply.detail,
        reply=reply.text,
        calls=tuple(calls.get(unit.repeat, ())),
        scores=scores.get(unit.repeat, {}),
        input=input,
        draw=draw,
    )


def _calls(
    store: RunStore, experiment: int, number: int, sample: Mapping[str, Any], draws: Draws, twin: int
) -> Mapping[int, Sequence[StoredCall]]:
    """Return the calls of an arm about one sample or twin, by repeat over all prompts."""
    table, forms, replies = schema.calls, schema.messages, schema.replies
    scored = (
        (replies.c.arm == table.c.arm) & (replies.c.position == table.c.position) & (replies.c.epoch == table.c.epoch)
    )
    query = (
        select(
            *(column for column in table.c if column.name not in ("text", *REFERENCES)),
            *(stored_text(table), referred_text(table.c.reasoning_id).label("thoughts")),
            *(forms.c.body, stored_text(replies).label("scored"), place_of(table, draws, twin).label("place")),
        )
        .join(schema.arms, schema.arms.c.id == table.c.arm)
        .outerjoin(forms, forms.c.id == table.c.messages)
        .outerjoin(replies, scored)
        .where(of_arm(experiment, number, twin), table.c.position == sample["position"])
        .order_by(table.c.arm, table.c.epoch, table.c.call, table.c.member)
    )
    by_repeat: dict[int, list[Any]] = defaultdict(list)
    for row in store.rows(query):
        by_repeat[row.place].append(row)
    return {repeat: list(_of_unit(of_repeat, sample)) for repeat, of_repeat in by_repeat.items()}


def _of_unit(rows: Sequence[Any], sample: Mapping[str, Any]) -> Iterator[StoredCall]:
    """Yield calls in the order in which they were sent: their messages refer to the sample and to earlier replies."""
    texts = sample_texts(sample["input"], sample["metadata"] or {})
    for row in rows:
        text = row.scored if row.is_scored else row.text
        yield StoredCall(
            call=row.call,
            request=row.request,
            member=row.member,
            messages=sample["input"] if row.messages is None else messages_of(unpack_form(row.body), texts),
            parameters=row.parameters,
            text=text,
            reasoning=_reasoning(row, text),
            think=row.think or 0,
            error=row.error or "",
            paid_by=row.paid_by,
        )
        if not row.member and text is not None and len(text) >= SHORTEST_REFERENCE:
            texts[f"r{row.call}"] = text_form(text)


def _reasoning(row: Any, text: str | None) -> str:
    if row.thoughts is not None:
        return str(row.thoughts)
    if row.reasoning is not None:
        return zlib.decompress(row.reasoning).decode()
    return reasoning_text(text or "", row.think or 0)


def _scores(
    store: RunStore, experiment: int, number: int, position: int, draws: Draws, twin: int
) -> Mapping[int, Mapping[str, Any]]:
    """Return metric -> value for each repeat of a sample in an arm."""
    table: Table = schema.observations
    query = (
        select(place_of(table, draws, twin), table.c.metric, table.c.value, table.c.is_bool, table.c.label)
        .join(schema.arms, schema.arms.c.id == table.c.arm)
        .where(of_arm(experiment, number, twin), table.c.position == position)
        .order_by(table.c.arm, table.c.epoch, table.c.metric)
    )
    scores: dict[int, dict[str, Any]] = defaultdict(dict)
    for repeat, metric, value, is_bool, label in store.rows(query):
        scores[repeat][metric] = label if label is not None else bool(value) if is_bool and value is not None else value
    return scores
