"""The indexes of the experiments that were looked at last, and the slices of their samples, in a bounded amount of memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np

from pytest_crucible.analyse.scores import Flags
from pytest_crucible.analyse.slices import MOST_GROUPS, is_by_twin
from pytest_crucible.features.view.samples.index import Codes, Labels, SampleIndex, load_index
from pytest_crucible.features.view.samples.search import find_samples
from pytest_crucible.features.view.samples.select import ListState, select_samples
from pytest_crucible.measures.fields import field_names, label_order, slice_samples
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.store.database import from_json
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


_PART = 5_000
"""Samples whose metadata are in memory together."""
Part = tuple[Sequence[Any], Sequence[Mapping[str, Any]]]
"""`expected` and metadata of some samples."""


def load_slices(store: RunStore, plan: Plan) -> Mapping[str, Labels]:
    """Return the slices of each field by its title: those by which the plan slices, then all fields with few values."""
    planned = [measure.by for measure in (*plan.targets, *plan.contrasts)]
    slicers = {by.title: _Slicer(by) for by in planned if by is not None and not is_by_twin(by, plan.variants)}
    start = 0
    for expected, metadata in _read_parts(store, plan.dataset_sha256):
        for name in field_names(expected, metadata):
            slicers.setdefault(name, _Slicer(By((Field(name),)), start))
        for slicer in slicers.values():
            slicer.add(expected, metadata)
        start += len(expected)
    return {title: slicer.labels() for title, slicer in slicers.items() if 1 < len(slicer.codes) <= MOST_GROUPS}


def _read_parts(store: RunStore, dataset: str) -> Iterator[Part]:
    query = "SELECT expected, metadata FROM samples WHERE dataset = :dataset ORDER BY position"
    rows = store.rows(query, dataset=dataset)
    while part := list(islice(rows, _PART)):
        yield [from_json(expected) for expected, _ in part], [from_json(metadata) or {} for _, metadata in part]


@dataclass(slots=True)
class _Slicer:
    """The slices of one field so far."""

    by: By
    start: int = 0
    """How many samples came before the first that has the field."""
    codes: dict[str, int] = field(default_factory=dict)
    """A number for each name."""
    parts: list[Codes] = field(default_factory=list)

    def add(self, expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> None:
        """Add the slices of some samples, unless there are too many already: then the field is an id, or a text."""
        if len(self.codes) > MOST_GROUPS:
            return
        slicing = slice_samples(self.by, expected, metadata)
        of_names = [self.codes.setdefault(name, len(self.codes)) for name in slicing.names]
        # The last place is that of -1, a sample without the field.
        self.parts.append(np.array([*of_names, -1], dtype=np.int32)[slicing.codes])

    def labels(self) -> Labels:
        """Return the slices of all samples, named in the order of their numbers or letters."""
        names = [name for name in _cut_names(self.by) if name in self.codes] or sorted(self.codes, key=label_order)
        places = np.full(len(names) + 1, -1, dtype=np.int16)
        places[[self.codes[name] for name in names]] = np.arange(len(names))
        absent: Codes = np.full(self.start, -1, dtype=np.int16)
        return Labels(np.concatenate([absent, *(places[part] for part in self.parts)]), tuple(names))


def _cut_names(by: By) -> Sequence[str]:
    """Return the names of the ranges of a field that is cut, the lowest first; empty for other fields."""
    if len(by.fields) > 1 or not by.fields[0].cuts:
        return ()
    name, cuts = by.fields[0].name, by.fields[0].cuts
    return slice_samples(by, [None] * (1 + len(cuts)), [{name: value} for value in (cuts[0] - 1, *cuts)]).names
