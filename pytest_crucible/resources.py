"""What a session holds open: the run store, its writer and the background loop. Each is opened when first used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from pytest_crucible import sandbox
from pytest_crucible.backends.caching import Caching
from pytest_crucible.backends.limiting.limiters import Limiters
from pytest_crucible.backends.protocol import Backend, Closing
from pytest_crucible.backends.sharing import Shared, untold
from pytest_crucible.backends.spending import Spending
from pytest_crucible.records import Emit
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.store.replies import StoredReplies
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer
from pytest_crucible.telemetry.listeners import Listeners

CLOSING_S = 10.0
"""How long the connections of all backends may take to close."""


class Resources:
    """Opens on demand; `close` releases what was opened, in order."""

    def __init__(
        self,
        store: str,
        *,
        cache: str,
        fresh: Iterable[str] = (),
        limiters: Callable[[], Limiters] = Limiters,
        spending: Callable[[], Spending] = Spending,
        hide: Callable[[str], str] = str,
        seed: int = 0,
        emit: Callable[[], Emit] = lambda: untold,
        run_code: bool = False,
    ) -> None:
        """`cache` is auto, only, off or refresh; `fresh` are the arms that are asked anew in any case.

        `hide` takes keys out of what is stored; `emit` is called when something is first to be told, and may raise SpecError.
        """
        self._location = store
        self._cache = cache
        self._fresh = frozenset(fresh)
        self._limiters = limiters
        self._hide = hide
        self._spending = spending
        self._seed = seed
        self._emit = emit
        self._run_code = run_code
        if run_code:
            sandbox.allow()
        self._backends: dict[int, Backend] = {}
        """Those that the session asks, each once."""

    @cached_property
    def shared(self) -> Shared:
        """What the backends of the session share. Raises SpecError for a budget or prices that cannot be read."""
        emit = self._emit()
        return Shared(
            emit=emit,
            starts=not isinstance(emit, Listeners) or emit.hears("request.start"),
            seed=self._seed,
            limiters=self._limiters(),
            spending=self._spending(),
            cache=self._caching(),
        )

    def _caching(self) -> Caching | None:
        if self._cache == "off":
            return None
        return Caching(
            replies=self.replies,
            only=self._cache == "only",
            begun=time.time(),
            refresh=self._cache == "refresh",
            fresh=self._fresh,
        )

    @cached_property
    def replies(self) -> StoredReplies:
        return StoredReplies(lambda: self.store, lambda: self.writer)

    def hold(self, *backends: Backend) -> None:
        """Close these, too, when the session ends."""
        self._backends |= {id(backend): backend for backend in backends}

    def enter_requests(self, run: str) -> None:
        """Write down, once, how much of what was asked came from the reply cache. Raises StoreError."""
        tallies = self.shared.cache.tallies if self.shared.cache is not None else {}
        while tallies:
            (nodeid, arm), tally = tallies.popitem()
            since = tally.oldest if tally.hits else None
            self.store.add_requests(run, nodeid, arm, requests=tally.requests, hits=tally.hits, since=since)

    @cached_property
    def store(self) -> RunStore:
        """Raises StoreError."""
        return RunStore(self._location, self._hide)

    @cached_property
    def writer(self) -> Writer:
        return self.store.writer()

    @cached_property
    def loop(self) -> BackgroundLoop:
        return BackgroundLoop()

    def close_writer(self) -> None:
        """Commit all that was observed. Raises StoreError."""
        if "writer" in self.__dict__:
            writer = self.__dict__.pop("writer")
            writer.close()

    def close(self) -> None:
        sandbox.close_shared()
        if self._run_code:
            sandbox.withdraw()
            self._run_code = False
        if "loop" in self.__dict__:
            loop = self.__dict__.pop("loop")
            loop.submit(_close_all(tuple(self._backends.values()))).result(timeout=CLOSING_S)
            loop.close()
        if "shared" in self.__dict__:
            self.shared.limiters.close()
            self.shared.spending.close()
        self.replies.close()
        try:
            self.close_writer()
        finally:
            if "store" in self.__dict__:
                self.__dict__.pop("store").close()


async def _close_all(backends: Sequence[Backend]) -> None:
    for backend in backends:
        if isinstance(backend, Closing):
            await backend.close()
