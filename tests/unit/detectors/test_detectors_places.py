"""Places of findings, and the spans that they become."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.detectors.places import drop_overlapping, make_spans, read_places, select_apart
from pytest_crucible.records.detections import Span

PLACES = st.lists(
    st.builds(lambda start, size: (start, start + size), st.integers(0, 30), st.integers(1, 9)), max_size=6
)


@given(places=PLACES, one=PLACES, other=PLACES)
def test_what_overlaps_something_taken_is_dropped(places, one, other):
    taken = [*one, *other]
    apart = [place for place in places if all(place[1] <= start or end <= place[0] for start, end in taken)]

    assert [*map(tuple, drop_overlapping(read_places(places), read_places(one), read_places(other)))] == apart


@given(st.dictionaries(st.sampled_from("ABC"), PLACES))
def test_spans_are_in_order_of_place_and_type(findings):
    spans = make_spans({kind: read_places(places) for kind, places in findings.items()})

    assert list(spans) == sorted(
        (Span(kind, start, end) for kind, places in findings.items() for start, end in places),
        key=lambda span: (span.start, span.end, span.type),
    )
    # They are built without their constructor, and have plain numbers as those built with it do.
    assert all(type(span.start) is int and not hasattr(span, "__dict__") for span in spans)


def test_no_places_are_an_array_of_pairs():
    assert read_places([]).shape == drop_overlapping(read_places([])).shape == (0, 2)
    assert np.array_equal(read_places(read_places([(1, 2)])), [[1, 2]])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=25))
def test_places_apart_are_those_of_a_search_from_left_to_right(begins):
    places = sorted((start, start + length) for start, length in begins)
    found, end = [], 0
    for start, stop in places:
        if start >= end:
            found.append([start, stop])
            end = stop

    assert select_apart(read_places(places)).tolist() == found
