"""Reads a stored experiment sample by sample: columns of all samples and twins, and the replies to a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Column, Row, Table, select

from pytest_crucible.records import ArmReply, Draws, Exchange, OutcomeState, Plan, Sample
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store import schema
from pytest_crucible.store.outcomes import of_arm, place_of
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import stored_text

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
    table = schema.samples
    query = select(table.c.position, table.c.input, table.c.expected)
    samples = query.where(table.c.dataset == plan.dataset_sha256, table.c.position.in_(positions))
    rows = {row.position: row for row in store.rows(samples)}
    numbers = range(len(plan.arms))
    arms = [_arm_replies(store, experiment, number, positions, plan.draws(number), twin) for number in numbers]
    return [
        Exchange(
            position=row.position,
            input=row.input,
            expected=row.expected,
            replies=tuple(tuple(arm.get(row.position, ())) for arm in arms),
        )
        for row in map(rows.__getitem__, positions)
    ]


def _arm_replies(
    store: RunStore, experiment: int, number: int, positions: Sequence[int], draws: Draws, twin: int
) -> Mapping[int, list[ArmReply]]:
    """Return an arm's replies by position, in the order of the repeats over all prompts."""
    by_position: dict[int, list[ArmReply]] = {}
    of_arm = (store, experiment, number, positions, draws, twin)
    for position, reply in (*_stored_replies(*of_arm), *_lost_replies(*of_arm)):
        by_position.setdefault(position, []).append(reply)
    return {position: sorted(of_sample, key=lambda reply: reply.repeat) for position, of_sample in by_position.items()}


def _stored_replies(
    store: RunStore, experiment: int, number: int, positions: Sequence[int], draws: Draws, twin: int
) -> Iterator[tuple[int, ArmReply]]:
    replies = schema.replies
    columns = ("failure", "skipped", "detail", "latency_s", "output_tokens")
    for position, repeat, failure, skipped, detail, latency_s, tokens, text in _rows_of_arm(
        store,
        replies,
        experiment,
        number,
        (
            *(replies.c.position, place_of(replies, draws, twin)),
            *(replies.c[name] for name in columns),
            stored_text(replies),
        ),
        (replies.c.position.in_(positions),),
        twin,
    ):
        state: OutcomeState = "failed" if failure else "skipped" if skipped else "answered"
        reason_and_detail = "; ".join(part for part in (failure, detail) if part)
        yield (
            position,
            ArmReply(
                repeat=repeat,
                state=state,
                text=text or "",
                detail=reason_and_detail,
                latency_s=latency_s,
                output_tokens=tokens,
            ),
        )


def _lost_replies(
    store: RunStore, experiment: int, number: int, positions: Sequence[int], draws: Draws, twin: int
) -> Iterator[tuple[int, ArmReply]]:
    lost = schema.lost
    for position, repeat, reason, detail in _rows_of_arm(
        store,
        lost,
        experiment,
        number,
        (lost.c.position, place_of(lost, draws, twin), lost.c.reason, lost.c.detail),
        (lost.c.position.in_(positions), lost.c.metric == ""),
        twin,
    ):
        reason_and_detail = "; ".join(part for part in (reason, detail) if part)
        yield (
            position,
            ArmReply(
                repeat=repeat, state="lost", text="", detail=reason_and_detail, latency_s=None, output_tokens=None
            ),
        )


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
