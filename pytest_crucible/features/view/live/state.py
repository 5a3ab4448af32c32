"""States of runs for open pages, read again after each change of the store."""

from __future__ import annotations

import datetime
import os
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from pytest_crucible.features.view.live.layout import Rates, lay_out, progress_sentence
from pytest_crucible.features.view.live.progress import ProgressReader, RunProgress
from pytest_crucible.features.view.site import Site
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store.database import Connection, json_part
from pytest_crucible.store.reading import ChangedStoreError
from pytest_crucible.store.runs import RunStore

SILENT_S = 10.0
"""Seconds without a write after which a page says so."""
_RATE_S = 10.0
"""Seconds over which replies are counted for their rate."""
_SHARE = 10
"""A run that takes long to read is read during one part in so many of the time."""
ALL = ""
"""What a page follows that shows all runs."""
State = Mapping[str, Any]
"""As JSON has it."""


@dataclass(slots=True)
class _Followed:
    """A run that pages follow."""

    reader: ProgressReader
    state: State = field(default_factory=dict)
    progress: RunProgress | None = None
    counts: deque[tuple[float, Mapping[tuple[int, str], int]]] = field(default_factory=deque)
    """When how many replies of each experiment and arm were there, for the last seconds."""
    written_at: float = 0.0
    """When it last wrote, in seconds since 1970, by the clock of this process."""
    is_stale: bool = True
    """Whether the store has changed since it was read."""
    is_silent: bool = False
    due: float = 0.0
    """When it may be read again."""

    def is_due(self) -> bool:
        return self.is_stale and time.time() >= self.due


class StateReader:
    """Reads the states of runs, on any thread, one call at a time. While nothing is committed a call costs next to nothing."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._version: Any = None
        self._followed: dict[str, _Followed] = {}

    def read(self, runs: Collection[str]) -> dict[str, State]:
        """Return the state of each run, by its id; of ALL, what changes with the list of runs."""
        self._followed = {run: self._followed.get(run) or _Followed(ProgressReader(run)) for run in runs}
        try:
            self._update_all()
        except StoreError as error:
            # What was counted may be a mixture of two times.
            self._version, self._followed = None, {}
            return (
                {}
                if isinstance(error, ChangedStoreError)
                else {run: {"problem": self._site.sentence(error)} for run in runs}
            )
        return {run: followed.state for run, followed in self._followed.items() if followed.state}

    def _update_all(self) -> None:
        version = store_version(self._site.store)
        is_changed, self._version = version != self._version, version
        for followed in self._followed.values():
            followed.is_stale |= is_changed
        due = {run: followed for run, followed in self._followed.items() if followed.is_due()}
        if due:
            with self._site.store.connect() as connection:
                for run, followed in due.items():
                    self._update(connection, run, followed)
        for followed in self._followed.values():
            if followed.progress is not None and _is_silent(followed) != followed.is_silent:
                followed.state = {**followed.state, **self._progress_state(followed, followed.progress)}

    def _update(self, connection: Connection, run: str, followed: _Followed) -> None:
        began, is_first = time.time(), not followed.state
        followed.is_stale = False
        followed.state = _list_state(connection) if run == ALL else self._run_state(connection, run, followed)
        # Not after the first, which reads all rows that are there.
        followed.due = 0.0 if is_first else time.time() + (_SHARE - 1) * (time.time() - began)

    def _run_state(self, connection: Connection, run: str, followed: _Followed) -> State:
        status = connection.scalar("SELECT status FROM runs WHERE id = :run", run=run)
        if status is None:
            return {"status": "removed"}
        others = {"newest": _newest_run(connection), "resumed_by": resuming_run(connection, run)}
        state = {
            name: other and {"run": other, "address": self._site.addresses.run(other)} for name, other in others.items()
        }
        if status != "running":
            followed.progress = None
            return {**state, "status": "ended"}
        progress = followed.reader.read(connection)
        _note_progress(followed, progress)
        return {**state, "status": "running", **self._progress_state(followed, progress)}

    def _progress_state(self, followed: _Followed, progress: RunProgress) -> State:
        """Return the part of a page with the progress of a run, and what screen readers announce of it."""
        followed.is_silent = _is_silent(followed)
        written_at = datetime.datetime.fromtimestamp(followed.written_at, datetime.UTC)
        return {
            "announcement": progress_sentence(progress),
            "html": self._site.render(
                "progress.html.j2",
                experiments=lay_out(progress, _rates(followed)),
                budgets=progress.budgets,
                written_at=written_at.isoformat(timespec="seconds"),
                is_silent=followed.is_silent,
            ),
        }


def _note_progress(followed: _Followed, progress: RunProgress) -> None:
    """Record when the run wrote, and its counts at that time."""
    now = time.time()
    if followed.progress is None:
        # Its own clock may be ahead.
        followed.written_at = min(now, progress.last)
    elif progress != followed.progress:
        followed.written_at = now
    followed.progress = progress
    counts = {
        (experiment.number, arm.name): arm.counts.done - arm.copied
        for experiment in progress.experiments
        for arm in experiment.arms
    }
    followed.counts.append((now, counts))
    while len(followed.counts) > 2 and now - followed.counts[1][0] > _RATE_S:
        followed.counts.popleft()


def _is_silent(followed: _Followed) -> bool:
    return time.time() - followed.written_at >= SILENT_S


def _rates(followed: _Followed) -> Rates:
    """Return how many replies each arm of an experiment has got in a second; empty until there were two looks at them."""
    (start, before), (end, now) = followed.counts[0], followed.counts[-1]
    if end <= start or _is_silent(followed):
        return {}
    return {place: (n - before.get(place, 0)) / (end - start) for place, n in now.items()}


def _newest_run(connection: Connection) -> str:
    """Return the run that was entered last."""
    return str(connection.scalar("SELECT run FROM experiments GROUP BY run ORDER BY MIN(id) DESC LIMIT 1") or "")


def resuming_run(connection: Connection, run: str) -> str | None:
    """Return the first later run with --crucible-resume that has an arm of this one; None without one."""
    resumes = json_part("runs.manifest", "settings", "resume", is_sqlite=connection.is_sqlite)
    query = f"""
        SELECT later.run FROM experiments
        JOIN arms ON arms.experiment = experiments.id AND arms.fingerprint <> ''
        JOIN arms AS equal ON equal.fingerprint = arms.fingerprint
        JOIN experiments AS later ON later.id = equal.experiment AND later.nodeid = experiments.nodeid
        JOIN runs ON runs.id = later.run
        WHERE experiments.run = :run AND later.run <> :run AND later.id > experiments.id
        AND CAST({resumes} AS TEXT) IN ('1', 'true')
        ORDER BY later.id LIMIT 1
    """
    resuming: str | None = connection.scalar(query, run=run)
    return resuming


def _list_state(connection: Connection) -> State:
    query = """
        SELECT COUNT(*), MAX(started), MAX(finished), SUM(CASE WHEN status = 'running' THEN 1 ELSE 0 END) FROM runs
    """
    return {
        "status": "runs",
        "runs": list(connection.first(query)),
        "tags": connection.scalar("SELECT MAX(id) FROM tags"),
    }


_TICK_S = 0.05
"""Seconds, more than a tick of a file system's clock: a file that is changed twice within one has the same time."""


def store_version(store: RunStore) -> Any:
    """Return a value that differs after each commit. Raises StoreError."""
    if store.database.is_sqlite:
        # Without a connection: the last writer merges its log into the file only if no other is open.
        return _file_version(store.database.path), _file_version(f"{store.database.path}-wal")
    # The transactions that are visible now.
    return store.scalar("SELECT CAST(pg_current_snapshot() AS TEXT)")


def _file_version(path: str) -> Any:
    began = time.time()
    try:
        status = os.stat(path)
    except OSError as error:
        return error.errno
    # Two looks at the clock: this process may be paused between them.
    if began - _TICK_S < status.st_mtime < time.time() + _TICK_S:
        # It may be changed once more at the same time.
        return object()
    return status.st_ino, status.st_size, status.st_mtime_ns
