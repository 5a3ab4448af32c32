"""Finds outcomes of earlier runs, and copies them into a new run instead of new requests."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, case, func, insert, literal, or_, select, true, update

from pytest_crucible.records import CachedReplies, Draws, ReusedReplies, SentAgain
from pytest_crucible.records.reasoning import reasoning_length
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.store import schema
from pytest_crucible.store.decisions import add_decision, load_decisions, set_decision
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import stored_text


def find_arm(
    store: RunStore, fingerprint: str, *, run: str, latest: bool = False, before: int | None = None
) -> tuple[int, str] | None:
    """Return (key, run) of an arm of another run with this fingerprint; None without one.

    It is the latest arm whose experiment is complete, or else the latest; with `latest`, the latest in any case.
    With `before`, only arms of experiments that were entered before that one count. An arm whose replies would be scored
    otherwise now, because their reasoning is known, is not returned.
    """
    joined = schema.arms.join(schema.experiments, schema.arms.c.experiment == schema.experiments.c.id)
    joined = joined.join(schema.runs, schema.experiments.c.run == schema.runs.c.id)
    newest = schema.arms.c.id.desc()
    # The run that made the requests, not one that copied its replies.
    origin = func.coalesce(schema.arms.c.reused_from, schema.runs.c.id)
    query = (
        select(schema.arms.c.id, origin.label("run"))
        .select_from(joined)
        .where(schema.arms.c.fingerprint == fingerprint, schema.runs.c.id != run)
        .where(true() if before is None else schema.arms.c.experiment < before)
        .order_by(*((newest,) if latest else (schema.experiments.c.finished.desc(), newest)))
        .limit(1)
    )
    row = store.first(query)
    return None if row is None or _was_reasoning_scored(store, row.id) else (row.id, row.run)


def _was_reasoning_scored(store: RunStore, arm: int) -> bool:
    """Return whether reasoning in some reply of an arm was scored with the answer, because its form was not known then."""
    calls, replies = schema.calls, schema.replies
    is_scored = (
        (replies.c.arm == calls.c.arm) & (replies.c.position == calls.c.position) & (replies.c.epoch == calls.c.epoch)
    )
    query = select(stored_text(replies)).join(calls, is_scored)
    query = query.where(replies.c.arm == arm, calls.c.is_scored, calls.c.think.is_(None))
    return any(reasoning_length(text) for (text,) in store.rows(query) if text)


def earlier_arm(store: RunStore, experiment: int, number: int, *, run: str) -> tuple[int, str] | None:
    """Return (key, run) of an equal arm of an earlier run; None without one, and for arms without a fingerprint."""
    table = schema.arms
    query = select(table.c.fingerprint).where(table.c.experiment == experiment, table.c.number == number)
    fingerprint = store.scalar(query)
    return find_arm(store, fingerprint, run=run, before=experiment) if fingerprint else None


def copy_outcomes(
    store: RunStore, source: int, target: int, *, source_run: str, draws: Draws, tried: bool = False
) -> set[tuple[int, int]]:
    """Copy an arm's outcomes to a new arm, so that every run is complete by itself. Return the (position, repeat) copied.

    `draws` are the replies of the new arm: a repeat is copied to the same number in the same training and round. Lost units
    are not copied: they are requested again. With `tried`, those of a complete experiment that a server never answered are
    copied, too: they would hang for ever.
    """
    # One transaction: a process that is killed leaves an arm with all of its copies or none.
    with store.begin() as connection:
        numbers = _copied_repeats(connection, source, draws)
        tried = tried and _is_complete(connection, source)
        for table in (schema.replies, schema.observations, schema.lost):
            connection.execute(_copy(table, source, target, numbers, tried=tried))
        connection.execute(_copy_calls(source, target, numbers))
        done = set(map(tuple, connection.execute(_units_of(schema.replies, target))))
        statement = update(schema.arms).where(schema.arms.c.id == target)
        connection.execute(statement.values(reused_from=source_run, reused_answers=len(done)))
        return done | set(map(tuple, connection.execute(_tried_units(target))))


def units_to_copy(store: RunStore, source: int, draws: Draws, *, tried: bool = False) -> set[tuple[int, int]]:
    """Return the (position, repeat) that `copy_outcomes` would copy, and copy nothing."""
    with store.connect() as connection:
        numbers = _copied_repeats(connection, source, draws)
        units = set(connection.execute(_units_of(schema.replies, source)))
        if tried and _is_complete(connection, source):
            units |= set(connection.execute(_tried_units(source)))
        return {(position, numbers[repeat]) for position, repeat in units if repeat in numbers}


def count_answers(store: RunStore, arm: int) -> int:
    """Return how many replies the arm with this key has."""
    return int(store.scalar(select(func.count()).where(schema.replies.c.arm == arm)))


def _units_of(table: Any, arm: int) -> Select[Any]:
    return select(table.c.position, table.c.epoch).where(table.c.arm == arm)


def _tried_units(arm: int) -> Select[Any]:
    """Return the query for units that a server never answered while it answered others."""
    return _units_of(schema.lost, arm).where(schema.lost.c.metric == "", schema.lost.c.reason == "unanswered")


def _is_complete(connection: Connection, arm: int) -> bool:
    """Return whether an arm's experiment ran to its end; else its server may have been down."""
    table, arms = schema.experiments, schema.arms
    query = select(table.c.finished).join(arms, arms.c.experiment == table.c.id).where(arms.c.id == arm)
    return bool(connection.execute(query).scalar())


def _copied_repeats(connection: Connection, source: int, draws: Draws) -> dict[int, int]:
    """Return the new number of each stored repeat that has a place in the new arm."""
    places = {draws.levels(repeat)[1:]: repeat for repeat in range(draws.size // draws.prompts)}
    stored = _repeat_places(connection, source) or {
        number: place for place, number in places.items() if not any(place[:2])
    }
    return {number: places[place] for number, place in stored.items() if place in places}


def copied_from(store: RunStore, arms: Sequence[int]) -> dict[int, str]:
    """Return the run that each of these arms has copies from, by the arm's key; arms without copies are left out."""
    table = schema.arms
    query = select(table.c.id, table.c.reused_from).where(table.c.id.in_(arms), table.c.reused_from.is_not(None))
    return dict(map(tuple, store.rows(query)))


_SENT_AGAIN = "sent again"
"""The subject of a decision, whose number is the key of an arm."""


def add_sent_again(store: RunStore, run: str, arm: int, sent: SentAgain) -> None:
    """Store which copies of an arm this run has sent again, beside those of an earlier stage."""
    earlier = sent_again(store, run, arm)
    if earlier is None:
        add_decision(store, run, _SENT_AGAIN, arm, to_plain(sent))
        return
    both = SentAgain(replies=earlier.replies + sent.replies, differences={**sent.differences, **earlier.differences})
    set_decision(store, run, _SENT_AGAIN, arm, to_plain(both))


def sent_again(store: RunStore, run: str, arm: int) -> SentAgain | None:
    """Return which copies of an arm a run has sent again; None without any."""
    body = load_decisions(store, run, _SENT_AGAIN).get(arm)
    return None if body is None else from_plain(SentAgain, body)


def replies_sent_again(store: RunStore, run: str, experiment: int) -> dict[str, SentAgain]:
    """Return, by arm, the stored replies that answered other calls and were sent again."""
    bodies = load_decisions(store, run, _SENT_AGAIN)
    if not bodies:
        return {}
    table = schema.arms
    query = select(table.c.id, table.c.name).where(table.c.experiment == experiment, table.c.id.in_(list(bodies)))
    return {name: from_plain(SentAgain, bodies[key]) for key, name in store.rows(query.order_by(table.c.number))}


def reused_replies(store: RunStore, experiment: int) -> dict[str, ReusedReplies]:
    """Return, by arm, the stored replies that were copied into this run."""
    table = schema.arms
    # Variants of an arm have rows of its name.
    query = select(table.c.name, func.min(table.c.reused_from), func.sum(table.c.reused_answers))
    query = query.where(table.c.experiment == experiment, table.c.reused_from.is_not(None)).group_by(table.c.name)
    return {name: ReusedReplies(run=run, replies=replies) for name, run, replies in store.rows(query)}


def cached_replies(store: RunStore, experiment: int) -> dict[str, CachedReplies]:
    """Return, by arm, how many replies were read from the reply cache."""
    table = schema.arms
    query = select(table.c.name, table.c.cache_hits, table.c.requests, table.c.cache_since)
    query = query.where(table.c.experiment == experiment, table.c.cache_hits > 0)
    return {
        name: CachedReplies(replies=hits, requests=requests, since=_moment(since))
        for name, hits, requests, since in store.rows(query)
    }


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _repeat_places(connection: Any, arm: int) -> dict[int, tuple[int, ...]]:
    """Return (training, round, number in the round) of each repeat of an arm's experiment; empty in a run of formats before 4."""
    table, arms = schema.repeats, schema.arms
    experiment = select(arms.c.experiment).where(arms.c.id == arm).scalar_subquery()
    query = select(table.c.number, func.coalesce(table.c.training, 0), table.c.round, table.c.epoch)
    return {
        number: tuple(place) for number, *place in connection.execute(query.where(table.c.experiment == experiment))
    }


def _renumber_repeats(table: Any, numbers: Mapping[int, int]) -> Any:
    """Return the column of the repeat with its new numbers."""
    if all(number == new for number, new in numbers.items()):
        return table.c.epoch
    return case(numbers, value=table.c.epoch).label("epoch")


def _copy(table: Any, source: int, target: int, numbers: Mapping[int, int], *, tried: bool) -> Any:
    others = [column for column in table.c if column.name not in ("arm", "epoch")]
    already = select(table.c.arm).where(table.c.arm == target).exists()
    rows: Select[Any] = select(literal(target).label("arm"), _renumber_repeats(table, numbers), *others)
    rows = rows.where(table.c.arm == source, table.c.epoch.in_(list(numbers)), ~already)
    if table is schema.lost:
        rows = rows.where(or_(table.c.metric != "", and_(table.c.reason == "unanswered", literal(tried))))
    return insert(table).from_select(["arm", "epoch", *(column.name for column in others)], rows)


def _copy_calls(source: int, target: int, numbers: Mapping[int, int]) -> Any:
    """Return a statement that copies the calls of replies.

    Calls of a lost unit are left: most are run again, and their calls count from 1 then.
    """
    table, replies, arms = schema.calls, schema.replies, schema.arms
    experiment = select(arms.c.experiment).where(arms.c.id == source).scalar_subquery()
    source_run = select(schema.experiments.c.run).where(schema.experiments.c.id == experiment).scalar_subquery()
    others = [column for column in table.c if column.name not in ("arm", "epoch", "paid_by")]
    paid_by = func.coalesce(table.c.paid_by, source_run)
    answered = and_(
        replies.c.arm == table.c.arm, replies.c.position == table.c.position, replies.c.epoch == table.c.epoch
    )
    renumbered = _renumber_repeats(table, numbers)
    rows: Select[Any] = select(literal(target).label("arm"), renumbered, *others, paid_by.label("paid_by"))
    rows = rows.where(
        table.c.arm == source, table.c.epoch.in_(list(numbers)), select(replies.c.arm).where(answered).exists()
    )
    already = select(table.c.arm).where(table.c.arm == target).correlate(None).exists()
    columns = ["arm", "epoch", *(column.name for column in others), "paid_by"]
    return insert(table).from_select(columns, rows.where(~already))
