"""The runs of a store as a list, and the tags that they have."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from pytest_crucible.errors import SpecError
from pytest_crucible.records import RunListed
from pytest_crucible.store import schema
from pytest_crucible.store.naming import newest_first
from pytest_crucible.store.opening import explained, insert_once
from pytest_crucible.store.runs import RunStore


def listed_runs(
    store: RunStore, *, tag: str = "", suite: str = "", adapter: str = "", limit: int = 0
) -> tuple[RunListed, ...]:
    """Runs with all that a list tells of them, newest first; those with this tag, this in a nodeid, this adapter as an arm.

    `limit` is the most that are given; 0 for all.
    """
    with explained(store.location), store.engine.connect() as connection:
        facts = {row["id"]: dict(row) for row in connection.execute(select(*_COLUMNS)).mappings()}
        tests, arms = _tests(connection), _arms(connection)
        verdicts, tags = _verdicts(connection), _tags(connection)
        order = newest_first(connection)
    found = (_listed(facts[run], tests[run], arms[run], verdicts[run], tags[run]) for run in order)
    wanted = [
        one
        for one in found
        if (not tag or tag in one.tags)
        and (not suite or any(suite in nodeid for nodeid in one.experiments))
        and (not adapter or adapter in one.arms)
    ]
    return tuple(wanted[:limit] if limit else wanted)


def check_tag(name: str) -> None:
    """Raises SpecError for a name that a shell does not take as it is behind `tag:`, or that is too long for a database."""
    longest = schema.LONGEST_TAG
    if not re.fullmatch(r"[\w.+/-]+", name) or len(name) > longest:
        raise SpecError(
            f"tag {name!r:.120} is no name of a run: write 1 to {longest} letters, digits and . _ - + /, as in main or release/2.1"
        )


def add_tag(store: RunStore, run: str, name: str, *, at: str, promoted: bool = False, forced: bool = False) -> None:
    """Give a run a name. A name may be given to several runs: it means the last of them. Raises SpecError."""
    check_tag(name)
    table = schema.tags
    row = {"name": name, "run": run, "at": at, "promoted": promoted, "forced": forced}
    same = (table.c.name == name, table.c.run == run, table.c.promoted == promoted)
    with explained(store.location), store.engine.begin() as connection:
        if promoted:  # anew: then it is the last
            connection.execute(table.delete().where(*same))
        connection.execute(insert_once(store.engine.dialect, table), row)


_COLUMNS = tuple(schema.runs.c[name] for name in ("id", "started", "finished", "status", "git", "exit_status"))


def _listed(
    row: Mapping[str, Any], tests: Sequence[str], arms: Sequence[str], states: Mapping[str, int], tags: Iterable[str]
) -> RunListed:
    return RunListed(
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
    )


def _tests(connection: Connection) -> Mapping[str, list[str]]:
    table = schema.experiments
    return _gathered(connection, select(table.c.run, table.c.nodeid).order_by(table.c.id))


def _arms(connection: Connection) -> Mapping[str, list[str]]:
    table, arms = schema.experiments, schema.arms
    joined = select(table.c.run, arms.c.name).join(arms, arms.c.experiment == table.c.id)
    return _gathered(connection, joined.order_by(table.c.id, arms.c.number))


def _tags(connection: Connection) -> Mapping[str, list[str]]:
    table = schema.tags
    return _gathered(connection, select(table.c.run, table.c.name).order_by(table.c.id))


def _verdicts(connection: Connection) -> Mapping[str, dict[str, int]]:
    table, verdicts = schema.experiments, schema.verdicts
    query = select(table.c.run, verdicts.c.state, func.count()).join(verdicts, verdicts.c.experiment == table.c.id)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for run, state, n in connection.execute(query.group_by(table.c.run, verdicts.c.state)):
        found[run][state] = n
    return found


def _gathered(connection: Connection, query: Any) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for run, value in connection.execute(query):
        found[run].append(value)
    return found
