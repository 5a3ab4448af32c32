"""Equal requests that must have equal replies, and those that need not."""

from __future__ import annotations

import pytest
from arm_columns import arm_columns, check_inputs

from pytest_crucible.features.run_checks.determinism import check_determinism, count_repeated
from pytest_crucible.records import Draws

GREEDY = {"temperature": 0}


def test_repeats_at_temperature_0_that_differ_are_counted_by_sample():
    arms = (
        arm_columns("v2", ["a", "a", "b", "c", "d", "d"], repeats=2, parameters=GREEDY),
        arm_columns("v1", ["a", "a", "b", "b", "d", "d"], repeats=2, parameters=GREEDY),
    )
    (finding,) = check_determinism(check_inputs(*arms))
    assert (finding.cells, finding.differs) == (("1 of 3", "0 of 3"), "not deterministic")
    assert finding.problem == (
        "v2 gave different replies to equal requests at temperature 0 or with one seed on 1 of 3 samples "
        "(0.8 % to 90.6 % at 95 %): it is not deterministic"
    )


@pytest.mark.parametrize("parameters", [{}, {"temperature": 1}, {"temperature": 0.2, "seed": 1}])
def test_repeats_that_are_draws_promise_nothing(parameters):
    assert count_repeated(arm_columns("v2", ["a", "b"], repeats=2, parameters=parameters)) == (0, 0)


def test_equal_calls_of_one_unit_have_one_seed_on_a_server():
    texts = ["a", "b"]
    columns = arm_columns("v2", texts, parameters={"temperature": 1, "seed": 4})
    calls = {"positions": [0, 0], "repeats": [0, 0], "calls": [1, 2], "requests": [1, 2]}
    again = type(columns)(
        arm=columns.arm, calls=type(columns.calls)(**{**vars_of(columns.calls), **calls}), replies=columns.replies
    )
    assert count_repeated(again) == (1, 1)


def vars_of(columns):
    return {name: getattr(columns, name) for name in columns.__slots__}


def test_replies_of_different_trainings_of_an_arm_may_differ():
    columns = arm_columns("v2", ["a", "b", "a", "b"], repeats=2, parameters=GREEDY)
    assert count_repeated(columns, Draws(trainings=2)) == (0, 0)
    assert count_repeated(columns, Draws(repeats=2)) == (2, 2)


def test_an_arm_without_equal_requests_has_no_line():
    assert not list(check_determinism(check_inputs(arm_columns("v2", ["a", "b"], parameters=GREEDY))))
