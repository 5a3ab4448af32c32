"""Lists the runs of a store, and tags them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from pytest_crucible.records import RunSummary
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.helpers import CHOOSING
from pytest_crucible.records.process_secrets import require_no_key
from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors, insert_or_ignore
from pytest_crucible.store.find_run import newest_first
from pytest_crucible.store.runs import RunStore


def list_runs(
    store: RunStore, *, tag: str = "", suite: str = "", adapter: str = "", limit: int = 0
) -> tuple[RunSummary, ...]:
    """Return summaries of runs, newest first: with this tag, with this text in a nodeid, with this adapter as an arm.

    At most `limit` are returned; 0 for all.
    """
    with explain_errors(store.location), store.engine.connect() as connection:
        facts = {row["id"]: dict(row) for row in connection.execute(select(*_COLUMNS)).mappings()}
        tests, arms = _tests(connection), _arms(connection)
        verdicts, tags, reasons = _verdicts(connection), _tags(connection), _reasons(connection)
        order = newest_first(connection)
    summaries = (
        _run_summary(facts[run], tests[run], arms[run], verdicts[run], tags[run], reasons[run]) for run in order
    )
    matching = [
        summary
        for summary in summaries
        if (not tag or tag in summary.tags)
        and (not suite or any(suite in nodeid for nodeid in summary.experiments))
        and (not adapter or adapter in summary.arms)
    ]
    return tuple(matching[:limit] if limit else matching)


def check_tag(name: str) -> None:
    """Raise SpecError for a tag that a shell would need quoted after `tag:`, or that is too long for the database."""
    longest = schema.LONGEST_TAG
    require_no_key(name, "tag")
    if not re.fullmatch(r"[\w.+/-]+", name) or len(name) > longest:
        raise SpecError(
            f"tag {name!r:.120} is not valid: write 1 to {longest} letters, digits and . _ - + /, for example main or release/2.1"
        )


def add_tag(
    store: RunStore, run: str, name: str, *, at: str, promoted: bool = False, forced: bool = False, why: str = ""
) -> None:
    """Tag a run. Several runs may have one tag: it means the last of them. Raises SpecError."""
    check_tag(name)
    table = schema.tags
    row = {"name": name, "run": run, "at": at, "promoted": promoted, "forced": forced, "why": why or None}
    same = (table.c.name == name, table.c.run == run, table.c.promoted == promoted)
    with explain_errors(store.location), store.engine.begin() as connection:
        # Again: its row must become the last one.
        if promoted:
            connection.execute(table.delete().where(*same))
        connection.execute(insert_or_ignore(store.engine.dialect, table), row)


_COLUMNS = tuple(schema.runs.c[name] for name in ("id", "started", "finished", "status", "git", "exit_status"))


def _run_summary(
    row: Mapping[str, Any],
    tests: Sequence[str],
    arms: Sequence[str],
    states: Mapping[str, int],
    tags: Iterable[str],
    reasons: Mapping[str, str],
) -> RunSummary:
    return RunSummary(
        id=row["id"],
        started=row["started"],
        finished=row["finished"],
        status=row["status"],
        exit_status=row["exit_status"],
        commit=(row["git"] or {}).get("commit"),
        dirty=(row["git"] or {}).get("dirty"),
        experiments=tuple(tests),
        arms=tuple(dict.fromkeys(arms)),
        verdicts=dict(states),
        tags=tuple(dict.fromkeys(tags)),
        reasons=dict(reasons),
    )


def _tests(connection: Connection) -> Mapping[str, list[str]]:
    table = schema.experiments
    entered = select(table.c.run, table.c.nodeid).where(~table.c.nodeid.contains(CHOOSING, autoescape=True))
    return _group_values(connection, entered.order_by(table.c.id))


def _arms(connection: Connection) -> Mapping[str, list[str]]:
    table, arms = schema.experiments, schema.arms
    joined = select(table.c.run, arms.c.name).join(arms, arms.c.experiment == table.c.id)
    return _group_values(connection, joined.order_by(table.c.id, arms.c.number))


def _tags(connection: Connection) -> Mapping[str, list[str]]:
    table = schema.tags
    return _group_values(connection, select(table.c.run, table.c.name).order_by(table.c.id))


def _reasons(connection: Connection) -> Mapping[str, dict[str, str]]:
    """Return why runs were made baselines, by run and tag."""
    table = schema.tags
    query = select(table.c.run, table.c.name, table.c.why).where(table.c.why.is_not(None)).order_by(table.c.id)
    reasons: dict[str, dict[str, str]] = defaultdict(dict)
    for run, name, why in connection.execute(query):
        reasons[run][name] = why
    return reasons


def _verdicts(connection: Connection) -> Mapping[str, dict[str, int]]:
    table, verdicts = schema.experiments, schema.verdicts
    query = select(table.c.run, verdicts.c.state, func.count()).join(verdicts, verdicts.c.experiment == table.c.id)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for run, state, n in connection.execute(query.group_by(table.c.run, verdicts.c.state)):
        counts[run][state] = n
    return counts


def _group_values(connection: Connection, query: Any) -> Mapping[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for run, value in connection.execute(query):
        groups[run].append(value)
    return groups
