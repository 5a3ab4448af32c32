"""Places of findings, and the spans that they become."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.detectors.places import drop_overlapping, make_spans
from pytest_crucible.records.detections import Span

PLACES = st.lists(
    st.builds(lambda start, size: (start, start + size), st.integers(0, 30), st.integers(1, 9)), max_size=6
)


@given(places=PLACES, one=PLACES, other=PLACES)
def test_what_overlaps_something_taken_is_dropped(places, one, other):
    taken = [*one, *other]
    apart = [place for place in places if all(place[1] <= start or end <= place[0] for start, end in taken)]

    assert drop_overlapping(places, one, other) == apart


@given(st.dictionaries(st.sampled_from("ABC"), PLACES))
def test_spans_are_in_order_of_place_and_type(findings):
    spans = make_spans(findings)

    assert list(spans) == sorted(
        (Span(kind, start, end) for kind, places in findings.items() for start, end in places),
        key=lambda span: (span.start, span.end, span.type),
    )
