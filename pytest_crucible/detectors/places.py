"""Places of findings in a text, and the spans that they become."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.records.detections import Span

Place = tuple[int, int]
"""The first character of a finding, and the one after its last."""
Places = NDArray[np.intp]
"""Places in order, none of which overlaps another. shape (n, 2)"""
_MANY = 1_000


def read_places(places: Iterable[Place] | Places) -> Places:
    """Return places as an array."""
    if isinstance(places, np.ndarray):
        return places
    return np.fromiter(chain.from_iterable(places), dtype=np.intp).reshape(-1, 2)


def drop_overlapping(places: Places, *taken: Places) -> Places:
    """Return the places that overlap none of those taken, which may be in any order and overlap each other.

    >>> drop_overlapping(read_places([(0, 4), (6, 9)]), read_places([(3, 5)])).tolist()
    [[6, 9]]
    """
    if not len(places) or not any(map(len, taken)):
        return places
    others = np.concatenate(taken)
    others = others[np.argsort(others[:, 0], kind="stable")]
    # The farthest end of all that begin before a place ends.
    farthest = np.maximum.accumulate(np.append(0, others[:, 1]))
    return places[farthest[np.searchsorted(others[:, 0], places[:, 1])] <= places[:, 0]]


def select_apart(places: Places) -> Places:
    """Return the places that a search from left to right finds: each first one, and those that begin behind its end.

    >>> select_apart(read_places([(0, 4), (3, 9), (4, 6)])).tolist()
    [[0, 4], [4, 6]]
    """
    starts, ends = places.T
    if not (starts[1:] < ends[:-1]).any():
        return places
    # A place behind the ends of all before it is found in any case.
    is_behind = starts[1:] >= np.maximum.accumulate(ends[:-1])
    is_found = np.concatenate([[True], is_behind, [False]])
    # The number of the place that is found next, where that is not known yet.
    none = len(places)
    following = np.append(np.searchsorted(starts, ends), none)
    following[is_found[following]] = none
    # Each step reaches twice as far as the one before, so that long rows of places that overlap need few.
    while (following < none).any():
        is_found[following[is_found]] = True
        is_found[none] = False
        following = following[following]
    apart: Places = places[is_found[:none]]
    return apart


def make_spans(findings: Mapping[str, Places]) -> tuple[Span, ...]:
    """Return the spans of the places of each type, in order of place.

    >>> make_spans({"URL": read_places([(5, 9)]), "IP_ADDRESS": read_places([(0, 4)])})
    (Span(type='IP_ADDRESS', start=0, end=4), Span(type='URL', start=5, end=9))
    """
    types = sorted(name for name, places in findings.items() if len(places))
    if not types:
        return ()
    places = np.concatenate([findings[name] for name in types])
    ranks = np.repeat(np.arange(len(types)), [len(findings[name]) for name in types])
    order = np.lexsort((ranks, places[:, 1], places[:, 0]))
    return _build(
        len(order),
        type=map(types.__getitem__, ranks[order].tolist()),
        start=places[order, 0].tolist(),
        end=places[order, 1].tolist(),
    )


def _build(count: int, **fields: Iterable[Any]) -> tuple[Span, ...]:
    """Return spans with these fields. The constructor of a frozen class takes three times as long: it sets each by a call."""
    new: Any = object.__new__
    with _pause_collection() if count > _MANY else nullcontext():
        spans: list[Span] = list(map(new, repeat(Span, count)))
        for name, values in fields.items():
            deque(map(getattr(Span, name).__set__, spans, values), maxlen=0)
        return tuple(spans)


@contextmanager
def _pause_collection() -> Iterator[None]:
    """Pause the garbage collector in the block: its repeated passes over many new objects would double the time."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
