"""The open resources of a session: run store, writer, background loop, limiters, budget and backends, opened when first used."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import cached_property, partial
from typing import Any

import pytest

from pytest_crucible.adapters.config_tables import read_prices
from pytest_crucible.backends.budget import SharedLedger, SpendLedger
from pytest_crucible.backends.cache import CachePolicy
from pytest_crucible.backends.context import BackendContext, UnsentRequest
from pytest_crucible.backends.limiting.control import Control, LimiterState
from pytest_crucible.backends.limiting.limiter import Limiters, Workers
from pytest_crucible.backends.protocol import Backend, Closeable
from pytest_crucible.backends.spending import Prices, Spending
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import BUDGET, BudgetSpent, Emit, Event
from pytest_crucible.records.errors import StoreError
from pytest_crucible.records.files import runtime_folder
from pytest_crucible.records.settings import Settings
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.session.events import EventPublisher
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.store.replies import ReplyRows, StoredReplies
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer
from pytest_crucible.telemetry.listeners import Listeners

# A server that does not answer must not keep pytest from ending.
CLOSE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class SharedByWorkers:
    """The limits, budgets and cached replies that workers on several machines share, in place of files of one machine."""

    count: int
    """The number of workers; each sends as many samples at a time as `--crucible-concurrency`."""
    open_limiter_state: Callable[[str, Control], LimiterState]
    """Returns the state of a server's limiter, by the name of the server."""
    open_ledger: Callable[[str], SpendLedger]
    """Returns the ledger of an experiment's budget, or of the run's (an empty name)."""
    reply_rows: ReplyRows | None = None
    """The cached replies of the driver's run store; None to use this process's."""
    node: str = ""
    """The address of this machine on the cluster."""


SHARED_BY_WORKERS = pytest.StashKey[SharedByWorkers]()
"""Set before a session opens what it names: in `pytest_crucible_open`, or earlier."""


class Resources:
    """Opens resources on demand; `close` closes everything that was opened, in order."""

    def __init__(self, config: pytest.Config, settings: Settings, run: str, publisher: EventPublisher) -> None:
        """Open nothing yet."""
        self._config, self._settings, self._run, self._publisher = config, settings, run, publisher
        self.on_unsent: Callable[[UnsentRequest], None] | None = None
        """Receives the requests of a session that sends none, such as an estimate. Set before anything is opened."""
        self.parts = 1
        """Into how many parts the run is divided, of which this session is one. Set before anything is opened."""
        self.location = settings.store
        """The run store: a path from pytest's root directory, or a URL. Set before anything is opened."""
        self._unusable: StoreError | None = None
        self._restores: list[Callable[[], object]] = []
        if settings.run_code:
            from pytest_crucible import sandbox

            sandbox.allow()
            self.on_close(sandbox.withdraw)
        self._backends: dict[int, Backend] = {}
        """The backends that the session queries, each once, by their identity in memory."""

    @property
    def sends(self) -> bool:
        """Return whether requests are sent."""
        return self.on_unsent is None

    @cached_property
    def shared(self) -> BackendContext:
        """State shared by the session's backends. Raises SpecError for invalid budgets or prices."""
        emit, settings = self._publisher.request_emit(), self._settings
        # The controller sends no requests, and does not use its workers' shared state.
        worker, across = getattr(self._config, "workerinput", None), self._config.stash.get(SHARED_BY_WORKERS, None)
        if across is not None:
            limiters = Limiters(ordinary=settings.concurrency * across.count, open_state=across.open_limiter_state)
        else:
            # --crucible-concurrency is per run, not per worker.
            workers = Workers(self._run, worker["workercount"]) if worker else None
            limiters = Limiters(ordinary=settings.concurrency, workers=workers, parts=self.parts)
        return BackendContext(
            emit=emit,
            starts=not isinstance(emit, Listeners) or emit.listens_to("request.start"),
            seed=settings.seed,
            limiters=limiters,
            spending=_open_spending(self._config, settings.budget, self._run, self.parts),
            cache=self._caching(),
            on_unsent=self.on_unsent,
        )

    def _caching(self) -> CachePolicy | None:
        settings = self._settings
        if settings.cache == "off":
            return None
        return CachePolicy(
            replies=self.replies,
            only=settings.cache == "only",
            begun=time.time(),
            refresh=settings.cache == "refresh",
            fresh=frozenset(settings.compare if settings.fresh else ()),
        )

    @cached_property
    def replies(self) -> StoredReplies:
        across = self._config.stash.get(SHARED_BY_WORKERS, None)
        return StoredReplies(lambda: self.store, lambda: self.writer, across.reply_rows if across else None)

    def add_backends(self, *backends: Backend) -> None:
        """Close these backends, too, when the session ends."""
        self._backends |= {id(backend): backend for backend in backends}

    def store_request_counts(self, run: str) -> None:
        """Store, once, how many requests the reply cache answered. Raises StoreError."""
        tallies = self.shared.cache.tallies if self.shared.cache is not None else {}
        # Emptied while they are stored: a second call then stores nothing twice.
        while tallies:
            (nodeid, arm), tally = tallies.popitem()
            since = tally.oldest if tally.hits else None
            self.store.add_requests(run, nodeid, arm, requests=tally.requests, hits=tally.hits, since=since)

    @cached_property
    def store(self) -> RunStore:
        """The run store. Raises StoreError, the same one each time: a server that is down would be waited for again and again."""
        if self._unusable is None:
            where, hide = self.location, key_redactor(self._config)
            # Paths count from pytest's root directory, wherever pytest is started.
            location = where if "://" in where else str(self._config.rootpath / where)
            try:
                return RunStore(location, hide, hide.hide_keys, self._config.pluginmanager.is_blocked)
            except StoreError as error:
                self._unusable = error
        raise self._unusable

    def open_store(self) -> None:
        """Open the run store before anything is spent whose result it could not take. Raises StoreError."""
        _ = self.store

    @cached_property
    def writer(self) -> Writer:
        return self.store.writer(stores_texts=self._settings.trace == "on")

    def replace_writer(self, writer: Any) -> None:
        """Use another writer, such as one that sends rows to another process."""
        self.close_writer()
        self.__dict__["writer"] = writer

    @cached_property
    def loop(self) -> BackgroundLoop:
        return BackgroundLoop()

    def close_writer(self) -> None:
        """Commit all observations. Raises StoreError."""
        if "writer" in self.__dict__:
            writer = self.__dict__.pop("writer")
            writer.close()

    def on_close(self, restore: Callable[[], object]) -> None:
        """Call `restore` when the session ends: it restores a part of this process that the session changed."""
        self._restores.append(restore)

    def close(self) -> None:
        """Close everything that was opened, in order; raises the last error when all of it is closed. Idempotent."""
        # An ExitStack runs all its callbacks from the last to the first, even if some raise.
        with ExitStack() as stack:
            for restore in self._restores:
                stack.callback(restore)
            # Cleared, because pytest may close a session twice.
            self._restores.clear()
            stack.callback(self._close_store)
            stack.callback(self.close_writer)
            stack.callback(self._close_replies)
            stack.callback(self._close_shared)
            stack.callback(self._close_backends)
            # The last callback runs first: backends and writer have to be closed before the store.
            stack.callback(_close_sandbox)

    def _close_backends(self) -> None:
        if "loop" not in self.__dict__:
            return
        loop: BackgroundLoop = self.__dict__.pop("loop")
        try:
            loop.submit(_close_all(tuple(self._backends.values()))).result(timeout=CLOSE_TIMEOUT_S)
        except TimeoutError:
            # A test or a model blocks the loop: nothing can be closed there, and its thread ends with the process.
            return
        except BaseException:
            loop.close()
            raise
        loop.close()

    def _close_shared(self) -> None:
        if "shared" in self.__dict__:
            with ExitStack() as stack:
                stack.callback(self.shared.spending.close)
                stack.callback(self.shared.limiters.close)

    def _close_replies(self) -> None:
        if "replies" in self.__dict__:
            self.replies.close()

    def _close_store(self) -> None:
        if "store" in self.__dict__:
            self.__dict__.pop("store").close()


def _close_sandbox() -> None:
    # Only a metric that runs code imports it.
    if "pytest_crucible.sandbox" in sys.modules:
        from pytest_crucible.sandbox import close_shared

        close_shared()


async def _close_all(backends: Sequence[Backend]) -> None:
    """Close every backend, also after one that raises."""
    async with AsyncExitStack() as stack:
        for backend in reversed(backends):
            if isinstance(backend, Closeable):
                stack.push_async_callback(backend.close)


def _open_spending(config: pytest.Config, budgets: tuple[str, ...], run: str, parts: int) -> Spending:
    """Return the session's budgets and the prices. Raises SpecError for invalid prices or budgets."""
    across = config.stash.get(SHARED_BY_WORKERS, None)
    open_ledger = partial(_open_ledger, config, run) if across is None else across.open_ledger
    return Spending(", ".join(budgets) or None, Prices(read_prices(config.rootpath)), open_ledger, parts=parts)


def _open_ledger(config: pytest.Config, run: str, experiment: str) -> SpendLedger:
    """Return the ledger of an experiment, or of the run, which all workers of pytest-xdist share."""
    is_worker = hasattr(config, "workerinput")
    # An experiment is run by one worker.
    if experiment or not (is_worker or config.pluginmanager.hasplugin("dsession")):
        return SpendLedger()
    name = hashlib.sha256(f"{run} budget".encode()).hexdigest()[:24]
    return SharedLedger(runtime_folder() / f"budget-{name}", removes_file=not is_worker)


def emit_budgets(emit: Emit, money: Spending, nodeid: str = "") -> None:
    """Emit how much of its budget the run has spent so far, and how much an experiment has spent of its own."""
    own = money.budgets.get(nodeid)
    for place, budget in (("", money.run), *([(nodeid, own)] if own is not None else [])):
        if budget is not None:
            facts = {"budget": budget.text, **budget.spent()._asdict(), "said": str(budget)}
            emit(Event(name=BUDGET, at=time.time(), experiment=place, facts=facts))


def budget_lines(budgets: Sequence[BudgetSpent]) -> list[str]:
    """Return a line for each budget: the experiments' budgets, then the run's."""
    ordered = sorted(budgets, key=lambda budget: not budget.experiment)
    return [f"budget   {f'{budget.experiment}: ' if budget.experiment else ''}{budget.said}" for budget in ordered]
