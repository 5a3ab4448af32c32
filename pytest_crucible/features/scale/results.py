"""Keeps the replies and scores of a session in Parquet parts: the setting `crucible_results`."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.store.part_moves import move_rows
from pytest_crucible.store.parts import ResultsFolder

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession


class ResultsPlugin:
    """Moves the rows of a session into parts when all of them are stored."""

    def __init__(self, session: CrucibleSession, results: ResultsFolder) -> None:
        self._session, self._results = session, results

    # After features that write rows of their own.
    @pytest.hookimpl(trylast=True)
    def pytest_crucible_sampled(self, interrupted: bool) -> None:
        session = self._session
        try:
            move_rows(session.resources.store, self._results, session.run)
        except StoreError as error:
            # Every row is still in the run store: the verdicts do not depend on where it is.
            session.messages.lines.append(f"replies and scores stay in the run store: {error}")


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
    session.config.pluginmanager.register(ResultsPlugin(session, results), "crucible-results")


def _open_folder(session: CrucibleSession, where: str) -> ResultsFolder:
    if importlib.util.find_spec("duckdb") is None:
        raise SpecError('crucible_results needs DuckDB: pip install "pytest-crucible[scale]"')
    # Paths count from pytest's root directory, as that of the run store does.
    results = ResultsFolder(where if "://" in where else str(session.config.rootpath / where))
    results.create()
    return results
