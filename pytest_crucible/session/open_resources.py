"""Opens the resources that a session's settings name. Under xdist its workers share limits and budget."""

from __future__ import annotations

import pytest

from pytest_crucible.backends.limiting.limiter import Limiters, Workers
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.budget import open_spending
from pytest_crucible.session.events import EventPublisher
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.resources import Resources


def open_resources(
    config: pytest.Config,
    settings: Settings,
    run: str,
    publisher: EventPublisher,
) -> Resources:
    """Return the resources of a session, each opened when first used."""
    return Resources(
        _store_location(config, settings),
        cache=settings.cache,
        fresh=settings.compare if settings.fresh else (),
        limiters=lambda: _limiters(config, settings, run),
        spending=lambda: open_spending(config, settings.budget, run),
        hide=key_redactor(config),
        hide_keys=key_redactor(config).hide_keys,
        seed=settings.seed,
        emit=publisher.request_emit,
        run_code=settings.run_code,
    )


def _store_location(config: pytest.Config, settings: Settings) -> str:
    """Return the run store's location; paths count from pytest's root directory, wherever pytest is started."""
    where = settings.store
    return where if "://" in where else str(config.rootpath / where)


def _limiters(config: pytest.Config, settings: Settings, run: str) -> Limiters:
    """Return the limiters that all workers of the run share: --crucible-concurrency is per run, not per worker."""
    # The controller sends no requests, and does not use its workers' shared state.
    worker = getattr(config, "workerinput", None)
    workers = Workers(run, worker["workercount"]) if worker else None
    return Limiters(ordinary=settings.concurrency, workers=workers)
