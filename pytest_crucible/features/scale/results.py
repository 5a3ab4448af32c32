"""Keeps the replies and scores of a session in Parquet parts: the setting `crucible_results`."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.store.part_moves import move_rows, remove_unentered
from pytest_crucible.store.part_writer import enter_parts
from pytest_crucible.store.parts import Part, ResultsFolder, probe_path
from pytest_crucible.store.spill_file import Rows

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession

RESULTS_PLUGIN = "crucible-results"
READING_S = 60.0
"""Seconds for which replaced parts stay: another process may be reading them by the manifest that it has read."""


class ResultsPlugin:
    """Enters the parts that workers write, and moves all other rows into parts when they are stored."""

    def __init__(self, session: CrucibleSession, results: ResultsFolder) -> None:
        self._session, self.results = session, results
        self.probe = probe_path(session.run)
        """The path of a file by which workers know the place."""
        self._replaced: deque[tuple[float, Sequence[str]]] = deque()

    def put_probe(self) -> list[str]:
        """Write the file by which workers know the place; return the problem if it cannot be written."""
        try:
            self.results.put(self.probe, memoryview(b""))
        except StoreError as error:
            return [str(error)]
        return []

    def enter(self, parts: Sequence[Part], replaced: Sequence[str], rows: Sequence[Rows]) -> None:
        """Enter parts instead of replaced ones, and rows, in one transaction. Raises StoreError."""
        # Stored replies that are not used any more are removed first: parts have no keys.
        self._session.resources.writer.flush()
        enter_parts(self._session.resources.store, parts, replaced, rows)
        now = time.monotonic()
        self._replaced.append((now, replaced))
        # Those that cannot be removed go at the session's end, or stay.
        with contextlib.suppress(StoreError):
            while self._replaced[0][0] < now - READING_S:
                for path in self._replaced.popleft()[1]:
                    self.results.remove(path)

    def note(self, problem: str) -> None:
        """Report, once, why rows are in the run store."""
        sentence = f"replies and scores stay in the run store: {problem}"
        if sentence not in self._session.messages.lines:
            self._session.messages.lines.append(sentence)

    # After features that write rows of their own.
    @pytest.hookimpl(trylast=True)
    def pytest_crucible_sampled(self, interrupted: bool) -> None:
        session = self._session
        try:
            move_rows(session.resources.store, self.results, session.run)
        except StoreError as error:
            # Every row is still in the run store: the verdicts do not depend on where it is.
            self.note(str(error))
        try:
            remove_unentered(session.resources.store, self.results, session.run)
        except StoreError as error:
            session.messages.lines.append(f"files that are not read any more stay in the results: {error}")


def open_results(session: CrucibleSession) -> None:
    """Register the plugin of a session, or add to its problems why the place of its results cannot be used."""
    where = session.settings.option("results")
    try:
        results = _open_folder(session, where)
    except SpecError as error:
        session.collection.problems.append(str(error))
        return
    if results.is_unprotected:
        session.messages.lines.append(f"warning: crucible_results = {where!r} sends replies without TLS: use https")
    session.config.pluginmanager.register(ResultsPlugin(session, results), RESULTS_PLUGIN)


def _open_folder(session: CrucibleSession, where: str) -> ResultsFolder:
    if importlib.util.find_spec("duckdb") is None:
        raise SpecError('crucible_results needs DuckDB: pip install "pytest-crucible[scale]"')
    # Paths count from pytest's root directory, as that of the run store does.
    results = ResultsFolder(where if "://" in where else str(session.config.rootpath / where))
    results.create()
    return results
