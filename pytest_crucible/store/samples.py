"""Reads a stored experiment sample by sample: columns of samples and twins, replies, and conversations turn by turn."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Column, Row, Table, select

from pytest_crucible.records import (
    ArmReply,
    Conversation,
    Draws,
    Exchange,
    OutcomeState,
    Plan,
    Sample,
    StoredCall,
    Unit,
)
from pytest_crucible.records.reasoning import reasoning_text
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store import schema
from pytest_crucible.store.outcomes import of_arm, place_of
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import (
    REFERENCES,
    SHORTEST_REFERENCE,
    form_of,
    messages_of,
    referred_text,
    sample_texts,
    stored_text,
    text_form,
    unpack_form,
)

_PART = 500
"""Rows read at a time: few enough to be released before the garbage collector counts 700 objects and visits them all."""


def group_names(store: RunStore, dataset: str) -> list[str | None]:
    """Return each sample's group, in the dataset's order."""
    return _read_column(store, dataset, schema.samples.c.sample_group)


def expected_values(store: RunStore, dataset: str) -> list[Any]:
    """Return each sample's `expected`, in the dataset's order."""
    return _read_column(store, dataset, schema.samples.c.expected)


def metadata_values(store: RunStore, dataset: str) -> list[Mapping[str, Any]]:
    """Return each sample's metadata, in the dataset's order; empty if it has none."""
    return [metadata or {} for metadata in _read_column(store, dataset, schema.samples.c.metadata)]


def has_metadata(store: RunStore, dataset: str) -> bool:
    """Return whether some sample of the dataset was stored with metadata."""
    return any(metadata_values(store, dataset))


def all_samples(store: RunStore, dataset: str) -> list[Sample]:
    """Return all samples of a dataset, in its order."""
    table = schema.samples
    query = select(table).where(table.c.dataset == dataset).order_by(table.c.position)
    return [_sample(row) for row in store.rows(query)]


def samples(store: RunStore, dataset: str, positions: Sequence[int]) -> dict[int, Sample]:
    """Return a few samples of a dataset, by position."""
    table = schema.samples
    query = select(table).where(table.c.dataset == dataset, table.c.position.in_(positions))
    return {row.position: _sample(row) for row in store.rows(query)}


def sample_contents(store: RunStore, dataset: str) -> list[tuple[str, str]]:
    """Return each sample's id, and its input and expected value as one text, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_id, table.c.input, table.c.expected).where(table.c.dataset == dataset)
    rows = store.rows(query.order_by(table.c.position))
    return [(name, canonical([text, expected])) for name, text, expected in rows]


def all_sample_ids(store: RunStore, dataset: str) -> list[str]:
    """Return each sample's id, in the dataset's order."""
    return _read_column(store, dataset, schema.samples.c.sample_id)


def _read_column(store: RunStore, dataset: str, column: Column[Any]) -> list[Any]:
    """Return a column of a dataset's samples, in the dataset's order."""
    table = schema.samples
    query = select(column).where(table.c.dataset == dataset).order_by(table.c.position)
    with store.connect() as connection:
        parts = connection.execute(query).partitions(_PART)
        return [value for part in parts for (value,) in part]


def _sample(row: Row[Any]) -> Sample:
    return Sample(
        id=row.sample_id,
        input=row.input,
        expected=row.expected,
        group=row.sample_group,
        metadata=row.metadata or {},
    )


def samples_without_twin(store: RunStore, sha256: str) -> Mapping[int, str]:
    """Return the positions of the samples that a variant does not apply to, each with the reason."""
    table = schema.twins
    query = select(table.c.position, table.c.reason).where(table.c.variant == sha256, table.c.reason.is_not(None))
    return {row.position: row.reason for row in store.rows(query)}


def load_twins(store: RunStore, sha256: str, position: int | None = None) -> Mapping[int, Mapping[str, Any]]:
    """Return input, expected, reason and facts of a variant's twins by position: of all samples, or of one."""
    table = schema.twins
    query = select(table).where(table.c.variant == sha256)
    if position is not None:
        query = query.where(table.c.position == position)
    return {row.position: row._asdict() for row in store.rows(query)}


_SEVERITY: tuple[OutcomeState, ...] = ("answered", "skipped", "failed", "lost")


def mean_latencies(store: RunStore, experiment: int, number: int, samples: int) -> list[float]:
    """Return the mean latency of an arm's replies to each sample, in seconds; NaN without any."""
    replies = schema.replies
    rows = _rows_of_arm(store, replies, experiment, number, (replies.c.position, replies.c.latency_s))
    total, count = np.zeros(samples), np.zeros(samples)
    for position, seconds in rows:
        if seconds is not None:
            total[position] += seconds
            count[position] += 1
    with np.errstate(invalid="ignore"):
        # 0 / 0 is NaN.
        means: list[float] = (total / count).tolist()
    return means


def outcome_states(store: RunStore, experiment: int, number: int, samples: int) -> list[OutcomeState]:
    """Return the worst state of each sample's repeats in an arm. A sample without a result is lost."""
    worst = np.full(samples, -1)
    replies, lost = schema.replies, schema.lost
    for position, failure, skipped in _rows_of_arm(
        store, replies, experiment, number, (replies.c.position, replies.c.failure, replies.c.skipped)
    ):
        worst[position] = max(worst[position], 2 if failure else 1 if skipped else 0)
    for position, metric in _rows_of_arm(store, lost, experiment, number, (lost.c.position, lost.c.metric)):
        if not metric:
            worst[position] = 3
    # -1 is the last of them.
    return [_SEVERITY[k] for k in worst]


def load_exchanges(
    store: RunStore, experiment: int, plan: Plan, positions: Sequence[int], twin: int = 0
) -> list[Exchange]:
    """Return input and replies of the samples at some positions, in that order. Pass a few hundred at a time.

    With a `twin` they are the replies to the samples' twins with this number.
    """
    of_samples = samples(store, plan.dataset_sha256, positions)
    numbers = range(len(plan.arms))
    arms = [_arm_replies(store, experiment, number, positions, plan.draws(number), twin) for number in numbers]
    return [
        Exchange(
            position=position,
            input=of_samples[position].input,
            expected=of_samples[position].expected,
            replies=tuple(tuple(arm.get(position, ())) for arm in arms),
        )
        for position in positions
    ]


def _arm_replies(
    store: RunStore, experiment: int, number: int, positions: Sequence[int], draws: Draws, twin: int
) -> Mapping[int, list[ArmReply]]:
    """Return an arm's replies by position, in the order of the repeats over all prompts."""
    replies, lost = schema.replies, schema.lost
    columns = ("failure", "skipped", "detail", "latency_s", "output_tokens")
    of_replies = (*(replies.c[name] for name in columns), stored_text(replies))
    by_position: dict[int, list[ArmReply]] = defaultdict(list)

    def add(
        position: int, repeat: int, state: OutcomeState, reason: str | None, detail: str | None, *rest: Any
    ) -> None:
        text, latency_s, tokens = rest or ("", None, None)
        by_position[position].append(
            ArmReply(
                repeat=repeat,
                state=state,
                text=text or "",
                detail="; ".join(part for part in (reason, detail) if part),
                latency_s=latency_s,
                output_tokens=tokens,
            )
        )

    def read(table: Table, columns: tuple[Any, ...], *where: Any) -> Iterator[Any]:
        place = (table.c.position, place_of(table, draws, twin))
        conditions = (table.c.position.in_(positions), *where)
        return _rows_of_arm(store, table, experiment, number, (*place, *columns), conditions, twin)

    for position, repeat, failure, skipped, detail, latency_s, tokens, text in read(replies, of_replies):
        state: OutcomeState = "failed" if failure else "skipped" if skipped else "answered"
        add(position, repeat, state, failure, detail, text, latency_s, tokens)
    for position, repeat, reason, detail in read(lost, (lost.c.reason, lost.c.detail), lost.c.metric == ""):
        add(position, repeat, "lost", reason, detail)
    return {position: sorted(of_sample, key=lambda reply: reply.repeat) for position, of_sample in by_position.items()}


def _rows_of_arm(
    store: RunStore,
    table: Table,
    experiment: int,
    number: int,
    columns: tuple[Any, ...],
    where: tuple[Any, ...] = (),
    twin: int = 0,
) -> Iterator[Any]:
    arms = schema.arms
    query = select(*columns).join(arms, arms.c.id == table.c.arm)
    query = query.where(of_arm(experiment, number, twin), *where)
    with store.connect() as connection:
        yield from connection.execution_options(yield_per=1000).execute(query)


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
            yield Conversation(
                unit=unit,
                arm=arm.name,
                state=reply.state,
                detail=reply.detail,
                reply=reply.text,
                calls=tuple(calls.get(reply.repeat, ())),
                scores=scores.get(reply.repeat, {}),
                input=sample["input"] if twin else None,
                draw=draw,
            )


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


def first_prompts(
    store: RunStore, samples: Mapping[int, Sample], forms: Mapping[int, int | None]
) -> dict[int, tuple[Any, Any]]:
    """Return by position the first prompt of a unit as it was sent, and with references in place of its sample's texts.

    `forms` has the keys of the forms of their messages. A prompt that refers to a text that is not stored is left out.
    """
    table, keys = schema.messages, {key for key in forms.values() if key is not None}
    bodies = {row.id: unpack_form(row.body) for row in store.rows(select(table).where(table.c.id.in_(keys)))}
    prompts = {}
    for position, sample in samples.items():
        texts, key = sample_texts(sample.input, sample.metadata or {}), forms[position]
        form = form_of(sample.input, texts) if key is None else bodies.get(key)
        with contextlib.suppress(KeyError):
            if form is not None:
                prompts[position] = (messages_of(form, texts), json.loads(form, strict=False))
    return prompts


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
