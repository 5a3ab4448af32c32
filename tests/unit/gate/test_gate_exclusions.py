"""Verdicts decided again without excluded samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_gate_verdicts import comparison, evidence, reading, target_result, verdict

from pytest_crucible.gate.decide import Settled, decide_without_excluded
from pytest_crucible.records import BoundedValue, ReducedEvidence

GOOD, WEAK, BAD = reading(0.9, 0.85, 0.95), reading(0.9, 0.7, 0.95), reading(0.5, 0.4, 0.6)
NOTHING = BoundedValue(value=None, lower=None, upper=None)


def without(observed: BoundedValue, *, worst=None, lost=0) -> ReducedEvidence:
    return ReducedEvidence(
        evidence=evidence(observed, worst=worst), n=231, lost=lost, excluded=69, reason="match train.jsonl"
    )


@pytest.mark.parametrize(
    ("whole", "rest", "state", "proven", "reason"),
    [
        (GOOD, GOOD, "met", True, "one-sided bound 0.85 >= target 0.80"),
        (GOOD, WEAK, "met", False, "proven on 300 samples, unproven without the 69 that match train.jsonl"),
        (GOOD, BAD, "undecided", False, "met on 300 samples, missed without the 69 that match train.jsonl"),
        (WEAK, BAD, "undecided", False, "met on 300 samples, missed without the 69 that match train.jsonl"),
        (WEAK, NOTHING, "undecided", False, "met on 300 samples, undecided without the 69 that match train.jsonl"),
        (BAD, GOOD, "undecided", False, "missed on 300 samples, met without the 69 that match train.jsonl"),
        (BAD, BAD, "missed", True, "one-sided bound 0.6 < target 0.80"),
    ],
)  # fmt: skip
def test_a_target_holds_only_if_it_holds_without_excluded_samples(whole, rest, state, proven, reason):
    result = replace(target_result("a >= 0.80", evidence(whole), n=300), reduced=without(rest))

    decided = verdict(result)

    assert (decided.state, decided.proven, decided.reason) == (state, proven, reason)


def test_a_target_that_needs_proof_is_undecided_where_the_proof_is_lost():
    result = replace(target_result("a >= 0.80", evidence(GOOD), n=300, decide="bound"), reduced=without(WEAK))

    assert verdict(result).reason == "met on 300 samples, undecided without the 69 that match train.jsonl"


def test_lost_samples_are_weighed_among_those_that_are_left():
    result = replace(target_result("a >= 0.80", evidence(GOOD), n=300), reduced=without(GOOD, worst=BAD, lost=5))

    assert verdict(result).state == "undecided"


def test_what_the_selection_withholds_is_not_decided_again():
    result = replace(target_result("a >= 0.80", evidence(GOOD), n=300), reduced=without(BAD))

    assert verdict(result, selected=7).reason == "only 7 of 100 samples were selected"


def test_a_regression_must_be_proven_without_excluded_samples():
    worse, unclear = reading(-0.2, p=0.001), reading(-0.05, p=0.3)
    proven = replace(comparison(evidence(worse)), reduced=without(worse))

    assert verdict(proven).state == "missed"
    assert verdict(replace(proven, reduced=without(unclear))).reason == (
        "missed on 100 samples, met without the 69 that match train.jsonl"
    )


def test_the_p_value_without_excluded_samples_is_corrected_as_the_whole_is():
    worse = replace(comparison(evidence(reading(-0.2, p=0.001))), reduced=without(reading(-0.2, p=0.04)))

    assert verdict(worse, family_size=1).state == "missed"
    assert verdict(worse, family_size=2).state == "undecided"


SETTLED = st.builds(Settled, st.sampled_from(["met", "missed", "undecided"]), st.booleans(), st.just(""))


@given(whole=SETTLED, rest=SETTLED)
def test_leaving_samples_out_never_decides_or_proves_anything(whole, rest):
    decided = decide_without_excluded(whole, 300, rest, without(GOOD))

    assert decided.state in (whole.state, "undecided")
    assert whole.proven or not decided.proven
    assert not decided.proven or (decided.state == rest.state and rest.proven) or whole.state == "undecided"
