"""Finds a run by its id or the beginning of it, as the latest run, or by a tag."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import closest_name, suggest
from pytest_crucible.store import schema

LATEST, TAGGED = "latest", "tag:"
_NEAR = 0.5
"""Similarity from which an id is suggested for another: two random ids agree in a third of their letters by chance."""


def find_run(connection: Connection, location: str, named: str) -> str:
    """Return the id of the one run that a name fits. Raises SpecError, with the nearest names."""
    if named.startswith(TAGGED):
        return _find_tagged(connection, location, named.removeprefix(TAGGED))
    ids = newest_first(connection)
    if not ids:
        raise SpecError(f"run store {location!r} has no runs yet: run an experiment first, or name another store")
    if named in ("", LATEST):
        return ids[0]
    matches = [run for run in ids if run.startswith(named)]
    if not matches:
        near = closest_name(named, ids, cutoff=_NEAR)
        hint = f"did you mean {near!r}?" if near else f"the latest is {ids[0]!r}"
        raise SpecError(f"run store {location!r} has no run that begins with {named!r}: {hint}")
    if len(matches) > 1 and named not in matches:
        raise SpecError(f"{named!r} matches {len(matches)} runs in {location!r}: give more characters of the id")
    return named if named in matches else matches[0]


def newest_first(connection: Connection) -> list[str]:
    """Return all runs, the last one entered first: a clock that is set back does not change this order."""
    table = schema.experiments
    entered = select(table.c.run, func.min(table.c.id).label("first")).group_by(table.c.run).subquery()
    query = (
        select(schema.runs.c.id)
        .outerjoin(entered, entered.c.run == schema.runs.c.id)
        .order_by(func.coalesce(entered.c.first, 0).desc(), schema.runs.c.started.desc())
    )
    return list(connection.execute(query).scalars())


def _find_tagged(connection: Connection, location: str, name: str) -> str:
    """Return the run that was promoted to this name last, or else the run that was tagged with it last."""
    table = schema.tags
    query = select(table.c.run).where(table.c.name == name).order_by(table.c.promoted.desc(), table.c.id.desc())
    run = connection.execute(query.limit(1)).scalar()
    if run is None:
        raise SpecError(f"run store {location!r} has no tag {name!r}: {_tag_hint(connection, name)}")
    return str(run)


def _tag_hint(connection: Connection, name: str) -> str:
    names: Sequence[str] = sorted(connection.execute(select(schema.tags.c.name).distinct()).scalars())
    there = f"it has {', '.join(names)}; " if names else ""
    promote = f"`crucible runs tag RUN {name}` makes a run the baseline of that name"
    return suggest(name, names, otherwise=there + promote)
