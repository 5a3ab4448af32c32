"""Lost and failed replies count for the rates that their samples are about, and for no others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_crucible.analyse.scores import mark_inapplicable, scores
from pytest_crucible.records import ArmOutcomes, Draws, Lost, MetricFacts, ScoreColumns, Unit
from pytest_crucible.records.datasets import AppliesTo
from pytest_crucible.records.serialize import from_plain, to_plain

EXPECTED = ["approve", {"label": "deny"}, "Approve", "deny", "deny", "approve"]
TRUE = MetricFacts(name="true_positive", kind="binary", low=0, high=1, applies_to=AppliesTo("approve", True))
FALSE = MetricFacts(
    name="false_positive", kind="binary", low=0, high=1, direction="lower", applies_to=AppliesTo("approve", False)
)
PLAN = SimpleNamespace(metrics=(MetricFacts(name="selected"), TRUE, FALSE), draws=lambda arm: Draws())


@pytest.fixture
def arm():
    """Samples 0 and 1 are scored, 2 and 3 failed (a refusal), 4 and 5 are lost."""
    columns = {
        "true_positive": ScoreColumns(positions=[0, 1], repeats=[0, 0], values=[1.0, None], is_bool=[True, False]),
        "false_positive": ScoreColumns(positions=[0, 1], repeats=[0, 0], values=[None, 0.0], is_bool=[False, True]),
    }
    return ArmOutcomes(
        positions=[0, 1, 2, 3], repeats=[0] * 4, failures=[None, None, "refusal", "refusal"], skipped=[False] * 4,
        scores=columns, labels=frozenset(), told={}, lost=[Lost(Unit(k, 0, 0, 0), None, "error", "") for k in (4, 5)],
    )  # fmt: skip


def test_a_rate_has_the_failed_and_lost_replies_of_its_own_samples(arm):
    (marked,) = mark_inapplicable(PLAN, (arm,), EXPECTED)
    true, false = (scores(facts, marked, samples=6, repeats=1) for facts in (TRUE, FALSE))

    np.testing.assert_array_equal(true.values, [1, np.nan, 0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(false.values, [np.nan, 0, np.nan, 1, np.nan, np.nan])
    assert (np.flatnonzero(true.lost).tolist(), np.flatnonzero(false.lost).tolist()) == ([5], [4])
    assert np.flatnonzero(true.inapplicable).tolist() == [1, 3, 4]
    assert np.flatnonzero(false.inapplicable).tolist() == [0, 2, 5]
    assert marked.scores.keys() == arm.scores.keys()


def test_without_expected_answers_nothing_is_known(arm):
    assert mark_inapplicable(PLAN, (arm,), ()) == (arm,)


def test_the_condition_is_stored_with_the_facts():
    assert from_plain(MetricFacts, to_plain(FALSE)) == FALSE
