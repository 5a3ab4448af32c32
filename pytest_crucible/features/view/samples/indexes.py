"""The indexes of the experiments that were looked at last: loaded in the background, in a bounded amount of memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, lru_cache, partial

import numpy as np

from pytest_crucible.analyse.scores import Flags
from pytest_crucible.features.view.samples.index import Codes, Labels, SampleIndex, load_index
from pytest_crucible.features.view.samples.search import find_samples
from pytest_crucible.features.view.samples.select import select_samples
from pytest_crucible.features.view.samples.slices import load_slices
from pytest_crucible.features.view.samples.state import ListState
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.store.runs import RunStore

ROOM = 80_000_000
"""Bytes of all indexes together. That of 250,000 samples with two metrics in two arms takes 24 MB."""
REFRESH_S = 3.0
"""Seconds after which the index of an unfinished run is loaded again, at a request. A large one is left longer: loading it
takes a twentieth of the time at most, for the run may be on this machine."""
_SHARE = 20
_LISTS = 8
"""Lists, and searches, of an experiment that are remembered: scrolling asks for the same list again and again."""


@dataclass(frozen=True, slots=True)
class StoredSamples:
    """An experiment by its key in the store, and the store."""

    store: RunStore
    run: str
    key: int
    plan: Plan


class IndexedSamples:
    """The samples of an experiment as they were at one time, and the last lists of them."""

    def __init__(self, of: StoredSamples) -> None:
        started = time.monotonic()
        self.of = of
        self.index: SampleIndex = load_index(of.store, of.run, of.key, of.plan)
        self.loaded_at = time.monotonic()
        self.age_limit_s = max(REFRESH_S, _SHARE * (self.loaded_at - started))
        self.positions = lru_cache(_LISTS)(self._select)
        """Returns the positions of a list of the samples, in its order."""
        self._search = lru_cache(_LISTS)(self._find)

    def _select(self, state: ListState) -> Codes:
        filters = [self.slices[state.by].flag(state.slice)] if state.by else []
        filters += (
            [self._search(ListState(search=state.search, is_abandoned=state.is_abandoned))] if state.search else []
        )
        return select_samples(self.index, state, *filters).astype(np.int32)

    def _find(self, state: ListState) -> Flags:
        of, size = self.of, self.index.size
        return find_samples(of.store, of.key, of.plan, state.search, size, state.is_abandoned)

    @cached_property
    def slices(self) -> Mapping[str, Labels]:
        """The slices of each field, which are read when they are first needed."""
        return load_slices(self.of.store, self.of.plan)

    @property
    def is_stale(self) -> bool:
        """Return whether the run may have written what the index lacks."""
        return not self.index.is_final and time.monotonic() - self.loaded_at > self.age_limit_s

    @property
    def bytes(self) -> int:
        """Return the most memory that columns, lists and searches take."""
        return self.index.bytes + self.index.size * _LISTS * (4 + 1)


class SampleIndexes:
    """The indexes by the key of their experiment; those that were used longest ago are dropped."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loaded: OrderedDict[int, IndexedSamples] = OrderedDict()
        self._loading: dict[int, Future[IndexedSamples]] = {}
        # One after the other: what an index is made from takes more memory than the index.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sample-index")

    def request(self, of: StoredSamples) -> IndexedSamples | Future[IndexedSamples]:
        """Return the index of an experiment, or the future one where it is not loaded yet.

        A stale index is returned as it is, and loaded again in the background.
        """
        with self._lock:
            loaded = self._loaded.get(of.key)
            if loaded is not None:
                self._loaded.move_to_end(of.key)
            future = self._loading.get(of.key)
            if future is None and (loaded is None or loaded.is_stale):
                future = self._loading[of.key] = self._executor.submit(IndexedSamples, of)
                future.add_done_callback(partial(self._finish, of.key))
            return loaded or future  # type: ignore[return-value]  # one of them is there

    def get(self, of: StoredSamples) -> IndexedSamples:
        """Return the index of an experiment, when it is loaded. Raises StoreError."""
        index = self.request(of)
        return index.result() if isinstance(index, Future) else index

    def _finish(self, key: int, future: Future[IndexedSamples]) -> None:
        with self._lock:
            del self._loading[key]
            # An error is raised where the index is waited for, and the next request tries again.
            if future.exception() is None:
                self._loaded[key] = future.result()
                self._loaded.move_to_end(key)
            while len(self._loaded) > 1 and sum(index.bytes for index in self._loaded.values()) > ROOM:
                self._loaded.popitem(last=False)
