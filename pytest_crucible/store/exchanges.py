"""A stored experiment read sample by sample: as columns of all, and as exchanges of a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Table, select

from pytest_crucible.records import Became, Exchange, Plan, Said
from pytest_crucible.store import schema
from pytest_crucible.store.opening import explained
from pytest_crucible.store.runs import RunStore

_SEVERITY: tuple[Became, ...] = ("answered", "skipped", "failed", "lost")


def latencies(store: RunStore, experiment: int, number: int, samples: int) -> list[float]:
    """The mean latency of an arm's answers to each sample, in seconds; NaN where none told one."""
    replies = schema.replies
    rows = _of_arm(store, replies, experiment, number, (replies.c.position, replies.c.latency_s))
    total, count = np.zeros(samples), np.zeros(samples)
    for position, seconds in rows:
        if seconds is not None:
            total[position] += seconds
            count[position] += 1
    with np.errstate(invalid="ignore"):
        means: list[float] = (total / count).tolist()  # 0 / 0 is NaN
    return means


def fates(store: RunStore, experiment: int, number: int, samples: int) -> list[Became]:
    """The worst that became of each sample in an arm. What was never asked is lost."""
    worst = np.full(samples, -1)
    replies, lost = schema.replies, schema.lost
    for position, failure, skipped in _of_arm(
        store, replies, experiment, number, (replies.c.position, replies.c.failure, replies.c.skipped)
    ):
        worst[position] = max(worst[position], 2 if failure else 1 if skipped else 0)
    for position, metric in _of_arm(store, lost, experiment, number, (lost.c.position, lost.c.metric)):
        if not metric:
            worst[position] = 3
    return [_SEVERITY[k] for k in worst]  # -1 is the last of them


def ids(store: RunStore, dataset: str) -> list[str]:
    """The ids of all samples, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_id).where(table.c.dataset == dataset).order_by(table.c.position)
    with explained(store.location), store.engine.connect() as connection:
        return list(connection.execute(query).scalars())


def exchanges(store: RunStore, experiment: int, plan: Plan, positions: Sequence[int]) -> list[Exchange]:
    """What was asked and answered of the samples at some positions, in that order; a few hundred at a time."""
    table = schema.samples
    query = select(table.c.position, table.c.input, table.c.expected)
    asked = query.where(table.c.dataset == plan.dataset_sha256, table.c.position.in_(positions))
    with explained(store.location), store.engine.connect() as connection:
        rows = {row.position: row for row in connection.execute(asked)}
    arms = [_said(store, experiment, number, positions) for number in range(len(plan.arms))]
    return [
        Exchange(
            position=row.position,
            input=row.input,
            expected=row.expected,
            said=tuple(tuple(arm.get(row.position, ())) for arm in arms),
        )
        for row in map(rows.__getitem__, positions)
    ]


def _said(store: RunStore, experiment: int, number: int, positions: Sequence[int]) -> Mapping[int, list[Said]]:
    """By position, in the order of the repeats."""
    replies, lost = schema.replies, schema.lost
    found: dict[int, list[Said]] = {}
    columns = ("position", "epoch", "text", "failure", "skipped", "detail", "latency_s", "output_tokens")
    for position, epoch, text, failure, skipped, detail, latency_s, tokens in _of_arm(
        store,
        replies,
        experiment,
        number,
        tuple(replies.c[name] for name in columns),
        (replies.c.position.in_(positions),),
    ):
        became: Became = "failed" if failure else "skipped" if skipped else "answered"
        told = "; ".join(part for part in (failure, detail) if part)
        one = Said(epoch=epoch, became=became, text=text or "", detail=told, latency_s=latency_s, output_tokens=tokens)
        found.setdefault(position, []).append(one)
    whole = (lost.c.position.in_(positions), lost.c.metric == "")
    for position, epoch, reason, detail in _of_arm(
        store, lost, experiment, number, (lost.c.position, lost.c.epoch, lost.c.reason, lost.c.detail), whole
    ):
        told = "; ".join(part for part in (reason, detail) if part)
        gone = Said(epoch=epoch, became="lost", text="", detail=told, latency_s=None, output_tokens=None)
        found.setdefault(position, []).append(gone)
    return {position: sorted(said, key=lambda one: one.epoch) for position, said in found.items()}


def _of_arm(
    store: RunStore, table: Table, experiment: int, number: int, columns: tuple[Any, ...], where: tuple[Any, ...] = ()
) -> Iterator[Any]:
    arms = schema.arms
    query = select(*columns).join(arms, arms.c.id == table.c.arm)
    query = query.where(arms.c.experiment == experiment, arms.c.number == number, *where)
    with explained(store.location), store.engine.connect() as connection:
        yield from connection.execution_options(yield_per=1000).execute(query)
