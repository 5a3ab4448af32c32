"""What a session holds open: the run store, its writer and the background loop. Each is opened when first used."""

from __future__ import annotations

from functools import cached_property

from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.writer import Writer


class Resources:
    """Opens on demand; `close` releases what was opened, in order."""

    def __init__(self, store: str) -> None:
        self._location = store

    @cached_property
    def store(self) -> RunStore:
        """Raises StoreError."""
        return RunStore(self._location)

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
        if "loop" in self.__dict__:
            self.__dict__.pop("loop").close()
        try:
            self.close_writer()
        finally:
            if "store" in self.__dict__:
                self.__dict__.pop("store").close()
