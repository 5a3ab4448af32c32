"""The declaration of a reach: what is accepted, and sentences for what is not."""

from __future__ import annotations

import math

import pytest

from pytest_crucible import metric
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import from_plain, to_plain


def declare(**facts) -> MetricFacts:
    return metric(name="quality", **facts)(lambda reply, sample: 0.5).facts


def test_a_reach_is_declared_with_bounds_or_without():
    assert declare(bounds=(0, 1), reach=0.25).largest_change == 0.25
    assert (declare(reach=3).kind, declare(reach=3).largest_change) == ("unbounded", 3.0)
    assert declare(kind="count", reach=2).largest_change == 2.0
    assert declare(bounds=(1, 5), reach=4).reach == 4.0
    assert (declare(bounds=(1, 5)).largest_change, declare().largest_change) == (4.0, math.inf)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"reach": 0}, "metric 'quality' has reach=0: write a positive number"),
        ({"reach": -0.1}, "has reach=-0.1: write a positive number"),
        ({"reach": math.inf}, "has reach=inf: write a positive number"),
        ({"reach": math.nan}, "has reach=nan: write a positive number"),
        ({"reach": True}, "has reach=True: write a positive number"),
        ({"reach": "25 %"}, "has reach='25 %': write a positive number"),
        ({"reach": 2, "bounds": (0, 1)}, "has reach=2, and no two values between 0 and 1 are further apart than 1"),
        ({"reach": 0.5, "kind": "binary"}, "has reach=0.5, but it is yes or no, and changes by 1 or not at all"),
        ({"reach": 1, "kind": "text"}, "has reach=1, but it is text: leave reach out"),
    ],
)
def test_an_invalid_reach_has_one_sentence(facts, sentence):
    with pytest.raises(SpecError, match=r"^[^\n]*$") as refusal:
        declare(**facts)

    assert sentence in str(refusal.value)


def test_a_reach_is_stored_and_runs_without_one_load():
    facts = declare(bounds=(0, 1), reach=0.25)
    plain = to_plain(facts)

    assert from_plain(MetricFacts, plain) == facts
    del plain["reach"]
    assert from_plain(MetricFacts, plain) == MetricFacts(name="quality", kind="bounded", low=0.0, high=1.0)
