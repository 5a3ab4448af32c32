"""The hooks of runs on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession


def pytest_crucible_open(session: CrucibleSession) -> None:
    where = session.settings.option("results")
    if where and not session.is_worker:
        from pytest_crucible.features.scale.results import open_results

        try:
            session.config.pluginmanager.register(open_results(session, where), "crucible-results")
        except SpecError as error:
            session.collection.problems.append(str(error))
