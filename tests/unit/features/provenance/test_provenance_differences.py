"""Similarity of two chains of decisions: by content, with repetitions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.differences import compare_chains


def chain(words: str) -> list[Decision]:
    return [Decision(number=k, kind="decision", decision=word) for k, word in enumerate(words.split(), 1)]


@pytest.mark.parametrize(
    ("first", "second", "similarity", "added", "removed"),
    [
        ("", "", 1.0, "", ""),
        ("a b", "", 0.0, "a b", ""),
        ("a b", "a b", 1.0, "", ""),
        ("b a", "a b", 1.0, "", ""),
        ("a a b", "a c", 1 / 3, "a b", "c"),
        ("a a a a", "a a", 0.5, "a a", ""),
        ("a b", "c d", 0.0, "a b", "c d"),
    ],
)
def test_equal_events_over_the_longer_chain(first, second, similarity, added, removed):
    value, *lists = compare_chains(chain(first), chain(second))

    assert value == pytest.approx(similarity)
    assert [" ".join(event.decision for event in events) for events in lists] == [added, removed]


# The predecessor calls two chains identical when every event differs and the ids agree.
@pytest.mark.parametrize(
    "change",
    [
        {"kind": "pattern_applied"}, {"decision": "b"}, {"over": ("c",)}, {"because": "so"}, {"confidence": 0.5},
        {"stage": "choose"}, {"is_claim": True},
    ],
)  # fmt: skip
def test_events_with_other_content_differ(change):
    (event,) = chain("a")
    assert compare_chains([event], [replace(event, **change)])[0] == 0


def test_number_time_and_calls_are_not_content():
    (event,) = chain("a")
    assert compare_chains([event], [replace(event, number=7, at=1.0, calls=2, parent=1, revises=3)])[0] == 1


words = st.lists(st.sampled_from("abc")).map(" ".join)


@given(words, words)
def test_similarity_is_symmetric_and_one_only_for_equal_chains(first, second):
    similarity, added, removed = compare_chains(chain(first), chain(second))

    assert compare_chains(chain(second), chain(first)) == (similarity, removed, added)
    assert 0 <= similarity <= 1
    assert (similarity == 1) == (sorted(first.split()) == sorted(second.split()))
