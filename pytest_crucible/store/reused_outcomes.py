"""Finds outcomes of earlier runs, and copies them into a new run instead of new requests."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import CachedReplies, Draws, Observation, ReusedReplies, SentAgain
from pytest_crucible.records.reasoning import reasoning_length
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.store import schema
from pytest_crucible.store.database import Connection
from pytest_crucible.store.decisions import add_decision, load_decisions, set_decision
from pytest_crucible.store.row_batch import observation_row
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import stored_text


def find_arm(
    store: RunStore, fingerprint: str, *, run: str, latest: bool = False, before: int | None = None
) -> tuple[int, str] | None:
    """Return (key, run) of an arm of another run with this fingerprint; None without one.

    It is the latest arm whose experiment is complete, or else the latest; with `latest`, the latest in any case.
    With `before`, only arms of experiments that were entered before that one count. An arm whose replies would be scored
    otherwise now, because their reasoning is known, is not returned.
    """
    # The run that made the requests, not one that copied its replies.
    query = f"""
        SELECT arms.id, COALESCE(arms.reused_from, runs.id)
        FROM arms JOIN experiments ON experiments.id = arms.experiment JOIN runs ON runs.id = experiments.run
        WHERE arms.fingerprint = :fingerprint AND runs.id <> :run
        {"" if before is None else "AND arms.experiment < :before"}
        ORDER BY {"" if latest else "experiments.finished DESC,"} arms.id DESC LIMIT 1
    """
    row = store.first(query, fingerprint=fingerprint, run=run, before=before)
    return None if row is None or was_reasoning_scored(store, row[0]) else row


def was_reasoning_scored(store: RunStore, arm: int) -> bool:
    """Return whether reasoning in some reply of an arm was scored with the answer, because its form was not known then."""
    query = f"""
        SELECT {stored_text("replies")} FROM replies JOIN calls
        ON calls.arm = replies.arm AND calls.position = replies.position AND calls.epoch = replies.epoch
        WHERE replies.arm = :arm AND calls.is_scored AND calls.think IS NULL
    """
    return any(reasoning_length(text) for text in store.scalars(query, arm=arm) if text)


def earlier_arm(store: RunStore, experiment: int, number: int, *, run: str) -> tuple[int, str] | None:
    """Return (key, run) of an equal arm of an earlier run; None without one, and for arms without a fingerprint."""
    query = "SELECT fingerprint FROM arms WHERE experiment = :experiment AND number = :number"
    fingerprint = store.scalar(query, experiment=experiment, number=number)
    return find_arm(store, fingerprint, run=run, before=experiment) if fingerprint else None


@dataclass(frozen=True)
class NewScores:
    """Values of metrics that a copied arm was not scored with."""

    replaced: frozenset[str]
    """Metrics whose stored values are not copied."""
    observations: Sequence[Observation]
    """Of units of the source."""


def copy_outcomes(
    store: RunStore,
    source: int,
    target: int,
    *,
    source_run: str,
    draws: Draws,
    tried: bool = False,
    with_texts: bool = True,
    scores: NewScores | None = None,
) -> set[tuple[int, int]]:
    """Copy an arm's outcomes to a new arm, so that every run is complete by itself. Return the (position, repeat) copied.

    `draws` are the replies of the new arm: a repeat is copied to the same number in the same training and round. Lost units
    are not copied: they are requested again. With `tried`, those of a complete experiment that a server never answered are
    copied, too: they would hang for ever. `with_texts` is False where calls are stored without texts. `scores` are added.
    """
    from pytest_crucible.store.part_moves import restored_arm

    # One transaction: a process that is killed leaves an arm with all of its copies or none.
    with store.begin() as connection, restored_arm(connection, source):
        numbers = _copied_repeats(connection, source, draws)
        tried = tried and _is_complete(connection, source)
        is_new = connection.scalar("SELECT COUNT(*) FROM replies WHERE arm = :target", target=target) == 0
        for table in (schema.replies, schema.observations, schema.lost):
            with connection.changing(table, "arm = :arm", arm=target):
                _copy(
                    connection, table, source, target, numbers, tried=tried, replaced=scores.replaced if scores else ()
                )
        if scores is not None and is_new:
            _add_scores(connection, scores, target, numbers, store.hide)
        with connection.changing(schema.calls, "arm = :arm", arm=target):
            _copy_calls(connection, source, target, numbers, with_texts=with_texts)
        for table in schema.unit_tables().values() if with_texts else ():
            with connection.changing(table, "arm = :arm", arm=target):
                _copy_feature_rows(connection, table, source, target, numbers)
        done = set(connection.execute(_UNITS, arm=target))
        statement = "UPDATE arms SET reused_from = :run, reused_answers = :answers WHERE id = :target"
        with connection.changing(schema.arms, "id = :arm", arm=target):
            connection.execute(statement, target=target, run=source_run, answers=len(done))
        return done | set(connection.execute(_TRIED_UNITS, arm=target))


def units_to_copy(store: RunStore, source: int, draws: Draws, *, tried: bool = False) -> set[tuple[int, int]]:
    """Return the (position, repeat) that `copy_outcomes` would copy, and copy nothing."""
    with store.connect() as connection:
        numbers = _copied_repeats(connection, source, draws)
        units = set(connection.execute(_UNITS, arm=source))
        if tried and _is_complete(connection, source):
            units |= set(connection.execute(_TRIED_UNITS, arm=source))
        return {(position, numbers[repeat]) for position, repeat in units if repeat in numbers}


def count_answers(store: RunStore, arm: int) -> int:
    """Return how many replies the arm with this key has."""
    return int(store.scalar("SELECT COUNT(*) FROM replies WHERE arm = :arm", arm=arm))


_UNITS = "SELECT position, epoch FROM replies WHERE arm = :arm"
_TRIED_UNITS = "SELECT position, epoch FROM lost WHERE arm = :arm AND metric = '' AND reason = 'unanswered'"
"""Units that a server never answered while it answered others."""


def _is_complete(connection: Connection, arm: int) -> bool:
    """Return whether an arm's experiment ran to its end; else its server may have been down."""
    query = "SELECT finished FROM experiments WHERE id = (SELECT experiment FROM arms WHERE id = :arm)"
    return bool(connection.scalar(query, arm=arm))


def _copied_repeats(connection: Connection, source: int, draws: Draws) -> dict[int, int]:
    """Return the new number of each stored repeat that has a place in the new arm."""
    places = {draws.levels(repeat)[1:]: repeat for repeat in range(draws.size // draws.prompts)}
    stored = _repeat_places(connection, source) or {
        number: place for place, number in places.items() if not any(place[:2])
    }
    return {number: places[place] for number, place in stored.items() if place in places}


def copied_from(store: RunStore, arms: Sequence[int]) -> dict[int, str]:
    """Return the run that each of these arms has copies from, by the arm's key; arms without copies are left out."""
    query = "SELECT id, reused_from FROM arms WHERE id IN (:arms) AND reused_from IS NOT NULL"
    return dict(store.rows(query, arms=arms))


SENT_AGAIN = "sent again"
"""The subject of a decision, whose number is the key of an arm."""


def add_sent_again(store: RunStore, run: str, arm: int, sent: SentAgain) -> None:
    """Store which copies of an arm this run has sent again, beside those of an earlier stage."""
    earlier = sent_again(store, run, arm)
    if earlier is None:
        add_decision(store, run, SENT_AGAIN, arm, to_plain(sent))
        return
    set_decision(store, run, SENT_AGAIN, arm, to_plain(join_sent_again(earlier, sent)))


def join_sent_again(earlier: SentAgain, sent: SentAgain) -> SentAgain:
    """Return what two parts of a run have sent again."""
    return SentAgain(replies=earlier.replies + sent.replies, differences={**sent.differences, **earlier.differences})


def sent_again(store: RunStore, run: str, arm: int) -> SentAgain | None:
    """Return which copies of an arm a run has sent again; None without any."""
    body = load_decisions(store, run, SENT_AGAIN).get(arm)
    return None if body is None else from_plain(SentAgain, body)


def replies_sent_again(store: RunStore, run: str, experiment: int) -> dict[str, SentAgain]:
    """Return, by arm, the stored replies that answered other calls and were sent again."""
    bodies = load_decisions(store, run, SENT_AGAIN)
    if not bodies:
        return {}
    query = "SELECT id, name FROM arms WHERE experiment = :experiment AND id IN (:keys) ORDER BY number"
    arms = store.rows(query, experiment=experiment, keys=list(bodies))
    return {name: from_plain(SentAgain, bodies[key]) for key, name in arms}


def reused_replies(store: RunStore, experiment: int) -> dict[str, ReusedReplies]:
    """Return, by arm, the stored replies that were copied into this run."""
    # Variants of an arm have rows of its name.
    query = """
        SELECT name, MIN(reused_from), SUM(reused_answers) FROM arms
        WHERE experiment = :experiment AND reused_from IS NOT NULL GROUP BY name
    """
    rows = store.rows(query, experiment=experiment)
    return {name: ReusedReplies(run=run, replies=replies) for name, run, replies in rows}


def cached_replies(store: RunStore, experiment: int) -> dict[str, CachedReplies]:
    """Return, by arm, how many replies were read from the reply cache."""
    query = """
        SELECT name, cache_hits, requests, cache_since FROM arms
        WHERE experiment = :experiment AND cache_hits > 0
    """
    return {
        name: CachedReplies(replies=hits, requests=requests, since=_moment(since))
        for name, hits, requests, since in store.rows(query, experiment=experiment)
    }


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _repeat_places(connection: Connection, arm: int) -> dict[int, tuple[int, ...]]:
    """Return (training, round, number in the round) of each repeat of an arm's experiment; empty in a run of formats before 4."""
    query = """
        SELECT number, COALESCE(training, 0), round, epoch FROM repeats
        WHERE experiment = (SELECT experiment FROM arms WHERE id = :arm)
    """
    return {number: tuple(place) for number, *place in connection.execute(query, arm=arm)}


def _copy(
    connection: Connection,
    table: Table,
    source: int,
    target: int,
    numbers: Mapping[int, int],
    *,
    tried: bool,
    replaced: Collection[str] = (),
) -> None:
    """Copy the rows of an arm, except calls and those of `replaced` metrics, unless its copy has some."""
    others = ", ".join(name for name in table.names if name not in ("arm", "epoch"))
    lost = "metric <> '' OR reason = 'unanswered'" if tried else "metric <> ''"
    statement = f"""
        INSERT INTO {table.name} (arm, epoch, {others})
        SELECT :target, {_renumber_sql(numbers)}, {others} FROM {table.name}
        WHERE arm = :source AND epoch IN (:repeats) {f"AND ({lost})" if table is schema.lost else ""}
        {"AND metric NOT IN (:replaced)" if replaced and table is not schema.replies else ""}
        AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE arm = :target)
    """
    connection.execute(statement, source=source, target=target, repeats=list(numbers), replaced=list(replaced))


def _add_scores(
    connection: Connection, scores: NewScores, target: int, numbers: Mapping[int, int], hide: Callable[[str], str]
) -> None:
    units = ((each, each.unit) for each in scores.observations if each.unit.repeat in numbers)
    moved = [replace(each, unit=unit._replace(repeat=numbers[unit.repeat])) for each, unit in units]
    connection.insert(schema.observations, [observation_row(each, target, hide) for each in moved])


_TEXTS = ("text", "reasoning", "reasoning_id")
"""Columns with the texts of calls. A long text keeps the reference that is its hash."""


def _copy_calls(
    connection: Connection, source: int, target: int, numbers: Mapping[int, int], *, with_texts: bool
) -> None:
    """Copy the calls of replies, unless the copy has some.

    Calls of a lost unit are left: most are run again, and their calls count from 1 then.
    """
    left_out = ("arm", "epoch", "paid_by", *(() if with_texts else (*_TEXTS, "has_texts")))
    others = ", ".join(name for name in schema.calls.names if name not in left_out)
    column, value = ("", "") if with_texts else (", has_texts", ", FALSE")
    statement = f"""
        INSERT INTO calls (arm, epoch, {others}, paid_by{column})
        SELECT :target, {_renumber_sql(numbers)}, {others}, COALESCE(
            paid_by, (SELECT run FROM experiments WHERE id = (SELECT experiment FROM arms WHERE id = :source))
        ){value}
        FROM calls
        WHERE arm = :source AND epoch IN (:repeats)
        AND EXISTS (SELECT 1 FROM replies WHERE arm = calls.arm AND position = calls.position AND epoch = calls.epoch)
        AND NOT EXISTS (SELECT 1 FROM calls WHERE arm = :target)
    """
    connection.execute(statement, source=source, target=target, repeats=list(numbers))


def _copy_feature_rows(
    connection: Connection, table: Table, source: int, target: int, numbers: Mapping[int, int]
) -> None:
    """Copy the rows of a feature about units with a reply, unless the copy has some."""
    others = ", ".join(name for name in table.names if name not in ("arm", "epoch"))
    statement = f"""
        INSERT INTO {table.name} (arm, epoch, {others})
        SELECT :target, {_renumber_sql(numbers)}, {others} FROM {table.name} AS source
        WHERE arm = :source AND epoch IN (:repeats)
        AND EXISTS (SELECT 1 FROM replies WHERE arm = source.arm AND position = source.position AND epoch = source.epoch)
        AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE arm = :target)
    """
    connection.execute(statement, source=source, target=target, repeats=list(numbers))


def _renumber_sql(numbers: Mapping[int, int]) -> str:
    """Return the SQL for the new number of a row's repeat."""
    if all(number == new for number, new in numbers.items()):
        return "epoch"
    return f"CASE epoch {' '.join(f'WHEN {number:d} THEN {new:d}' for number, new in numbers.items())} END"
