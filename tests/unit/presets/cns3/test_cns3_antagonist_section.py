"""How often each rule fired, and how right it was where a person has looked."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import stats
from pytest_crucible.presets.cns3.antagonist import Finding, Flagged, from_text, to_text
from pytest_crucible.presets.cns3.antagonist_section import FindingTally, tally_findings

WEAK = Finding("WEAK", "MEDIUM", {"entailment": 0.1})
EXPLAINED = Finding("WEAK", "MEDIUM", {"entailment": 0.1}, caused_by="INVALID")
INVALID = Finding("INVALID", "HIGH", {"citation_accuracy": 0.0})
found_things = st.lists(st.sampled_from([WEAK, EXPLAINED, INVALID]), max_size=2, unique_by=lambda one: one.name)
golds = st.none() | st.frozensets(st.sampled_from(["WEAK", "INVALID", "OTHER"]))


def tally(*flagged: Flagged, repeats: int = 1) -> dict[str, FindingTally]:
    units = dict(zip(product(range(len(flagged) // repeats), range(repeats)), flagged, strict=True))
    several = tally_findings("v2", units, samples=len(flagged) // repeats, clusters=None, level=0.95)
    return {one.name: one for one in several}


def test_shares_have_the_interval_of_any_share():
    found = tally(*[Flagged((INVALID,))] * 3, *[Flagged(())] * 7)["INVALID"]
    interval = stats.wilson_interval(3, 10)

    assert (found.rate.value, found.rate.n) == (pytest.approx(0.3), 10)
    assert (found.rate.interval.low, found.rate.interval.high) == pytest.approx((interval.low, interval.high))
    assert found.severities == {"HIGH": 3, "MEDIUM": 0, "LOW": 0}


def test_an_explained_finding_is_seen_and_does_not_count():
    found = tally(Flagged((INVALID, EXPLAINED)), Flagged((WEAK,)), Flagged(()), Flagged(()))["WEAK"]

    assert (found.rate.value, found.explained, found.severities["MEDIUM"]) == (0.5, 1, 1)


def test_without_gold_flags_nothing_is_said_of_precision():
    found = tally(Flagged((WEAK,)), Flagged(()))["WEAK"]

    assert found.precision is None
    assert found.recall is None


def test_precision_and_recall_are_over_what_a_person_has_looked_at():
    none, gold = frozenset(), frozenset({"WEAK"})
    found = tally(
        Flagged((WEAK,), gold),  # right
        Flagged((WEAK,), gold),  # right
        Flagged((WEAK,), none),  # a false alarm
        Flagged((), gold),  # overlooked
        Flagged((), none),
        Flagged((WEAK,)),  # nobody has looked
        Flagged((INVALID, EXPLAINED), gold),  # found, and no alarm of its own
    )["WEAK"]

    assert (found.precision.value, found.precision.n) == (pytest.approx(2 / 3), 3)
    assert (found.recall.value, found.recall.n) == (pytest.approx(3 / 4), 4)


def test_what_only_a_person_found_has_a_recall_of_nothing():
    found = tally(Flagged((), frozenset({"OTHER"})), Flagged((), frozenset()))["OTHER"]

    assert (found.recall.value, found.recall.n, found.rate.value) == (0.0, 1, 0.0)
    assert (found.precision.value, found.precision.n) == (None, 0)


def test_repeats_are_averaged_inside_the_sample():
    found = tally(Flagged((WEAK,)), Flagged(()), Flagged(()), Flagged(()), repeats=2)["WEAK"]

    assert (found.rate.value, found.rate.n) == (0.25, 2)


@given(st.lists(st.tuples(found_things, golds), min_size=1, max_size=12))
def test_every_finding_counts_once_or_is_explained(several):
    flagged = [Flagged(tuple(findings), gold) for findings, gold in several]
    found = tally(*flagged).values()

    assert sum(sum(one.severities.values()) + one.explained for one in found) == sum(
        len(one.findings) for one in flagged
    )
    for one in found:
        for share in (one.rate, one.precision, one.recall):
            assert share is None or share.value is None or 0 <= share.interval.low <= share.value <= share.interval.high


@given(found_things, golds)
def test_a_text_keeps_what_was_found(findings, gold):
    metadata = {} if gold is None else {"gold_flags": list(gold)}

    assert from_text(to_text(findings, metadata)) == Flagged(tuple(findings), gold)


@pytest.mark.parametrize("gold", ["WEAK", [1], {"WEAK": True}])
def test_gold_flags_that_are_no_list_of_names(gold):
    with pytest.raises(
        ValueError, match=r"gold_flags is .*; expected a list of findings' names, empty if there are none"
    ):
        to_text([], {"gold_flags": gold})
