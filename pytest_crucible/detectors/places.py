"""Places of findings in a text, and the spans that they become."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate

from pytest_crucible.records.detections import Span

Place = tuple[int, int]
"""The first character of a finding, and the one after its last."""


def drop_overlapping(places: Iterable[Place], *taken: Iterable[Place]) -> list[Place]:
    """Return the places that overlap none of those taken, which may be in any order and overlap each other.

    >>> drop_overlapping([(0, 4), (6, 9)], [(3, 5)])
    [(6, 9)]
    """
    others = sorted(place for group in taken for place in group)
    starts = [start for start, _ in others]
    # The farthest end of all that begin before a place ends.
    farthest = [0, *accumulate((end for _, end in others), max)]
    return [(start, end) for start, end in places if farthest[bisect_left(starts, end)] <= start]


def make_spans(findings: Mapping[str, Iterable[Place]]) -> tuple[Span, ...]:
    """Return the spans of the places of each type, in order of place.

    >>> make_spans({"URL": [(5, 9)], "IP_ADDRESS": [(0, 4)]})
    (Span(type='IP_ADDRESS', start=0, end=4), Span(type='URL', start=5, end=9))
    """
    found = sorted((start, end, name) for name, places in findings.items() for start, end in places)
    return tuple(Span(name, start, end) for start, end, name in found)
