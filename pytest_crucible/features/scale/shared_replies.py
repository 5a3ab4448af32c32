"""The cached replies of the driver's run store, which workers read through an actor on the driver's node."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pytest_crucible.store.replies import StoredRows
from pytest_crucible.store.runs import RunStore

LOCATION = "CRUCIBLE_DRIVER_STORE"
"""The environment variable of the actor with the location, which may have a password: Ray shows no values of variables."""


class ReplyDesk:
    """Reads the driver's run store for workers; the actor."""

    @cached_property
    def _rows(self) -> StoredRows:
        store = RunStore(os.environ[LOCATION], reader="the reply cache of workers")
        return StoredRows(lambda: store)

    def read(self, keys: Sequence[str], most: int) -> tuple[list[Mapping[str, Any]], list[str]]:
        """Return the rows of some keys, and up to `most` of all keys that exist. Raises StoreError."""
        return self._rows.read(keys, most)

    def find_adapter(self, settings: str) -> tuple[str, Mapping[str, str]] | None:
        """Return the identity and the files of an adapter. Raises StoreError."""
        return self._rows.find_adapter(settings)


class RemoteRows:
    """A worker's side: the same calls, sent to the actor. They are called in threads that may wait."""

    def __init__(self, desk: Any) -> None:
        self._desk = desk

    def read(self, keys: Sequence[str], most: int) -> tuple[list[Mapping[str, Any]], list[str]]:
        import ray

        answer: tuple[list[Mapping[str, Any]], list[str]] = ray.get(self._desk.read.remote(list(keys), most))
        return answer

    def find_adapter(self, settings: str) -> tuple[str, Mapping[str, str]] | None:
        import ray

        answer: tuple[str, Mapping[str, str]] | None = ray.get(self._desk.find_adapter.remote(settings))
        return answer
