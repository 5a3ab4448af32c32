"""Sets of segments to request: their number, order and repeats within the calls, and too few calls."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.attribution.sets import plan_sets, prefix_sets


def count_fewest(segments: int) -> int:
    """Return the requests of all sets, or of whole, empty, one left out each and two antithetic pairs."""
    return min(2**segments, 2 + segments + 4 * max(0, segments - 2))


@settings(max_examples=choose_examples(100))
@given(st.integers(1, 24), st.integers(0, 500), st.booleans(), st.integers(0, 9))
def test_a_plan_stays_within_the_calls(segments, beyond, is_random, seed):
    calls = count_fewest(segments) + beyond
    plan = plan_sets(segments, calls, is_random=is_random, seed=seed)

    assert len(plan.masks) * plan.repeats <= calls
    assert len(set(plan.masks)) == len(plan.masks)
    assert plan.masks[0] == plan.whole
    assert plan.masks[1] == 0
    removed = {plan.whole ^ mask for mask in plan.masks[: segments + 2]}
    assert removed == {0, plan.whole, *(1 << segment for segment in range(segments))}
    needed = {mask for order in plan.permutations for mask in prefix_sets(order)}
    assert needed <= set(plan.masks)
    assert plan.is_exact == (len(plan.masks) == 2**segments)
    assert all(plan.permutations[at][::-1] == plan.permutations[at + 1] for at in range(0, len(plan.permutations), 2))


@pytest.mark.parametrize(
    ("segments", "needed"),
    [
        (12, r"12 segments need 54 \(the whole prompt, the empty one, one left out each, two antithetic pairs\)"),
        (20, r"20 segments need 94 \("),
        (4, r"4 segments need 14 \("),
        (3, r"3 segments need 8 \(all sets of segments\)"),
    ],
)
def test_too_few_calls_are_refused_with_the_number_needed(segments, needed):
    with pytest.raises(ValueError, match=needed):
        plan_sets(segments, 5, is_random=True, seed=0)


@pytest.mark.parametrize("segments", [12, 20, 40])
def test_the_number_needed_is_enough(segments):
    needed = count_fewest(segments)
    plan = plan_sets(segments, needed, is_random=False, seed=0)

    assert len(plan.permutations) >= 4
    with pytest.raises(ValueError, match=f"need {needed}"):
        plan_sets(segments, needed - 1, is_random=False, seed=0)


def test_no_segments_are_refused():
    with pytest.raises(ValueError, match="at least 1 segment, not 0"):
        plan_sets(0, 100, is_random=False, seed=0)


def test_all_sets_are_requested_when_they_fit_with_all_the_repeats_that_fit():
    plain, random = (plan_sets(4, 200, is_random=is_random, seed=0) for is_random in (False, True))

    assert sorted(plain.masks) == list(range(16))
    assert (plain.is_exact, plain.repeats, random.is_exact, random.repeats) == (True, 1, True, 12)
    assert plain.permutations == ()


def test_random_replies_have_two_draws_of_each_set_of_permutations():
    plan = plan_sets(12, 200, is_random=True, seed=0)

    assert (plan.is_exact, plan.repeats) == (False, 2)
    assert len(plan.permutations) == 8


def test_the_seed_decides_the_permutations():
    plans = [plan_sets(12, 200, is_random=False, seed=seed) for seed in (0, 0, 1)]

    assert plans[0] == plans[1]
    assert plans[0].permutations != plans[2].permutations


def test_more_calls_only_add_rounds():
    short, long = (plan_sets(12, calls, is_random=False, seed=0) for calls in (100, 400))

    assert long.masks[: len(short.masks)] == short.masks
    assert long.permutations[: len(short.permutations)] == short.permutations


def test_sets_that_permutations_share_are_requested_once():
    """50 rounds of 12 segments are 1,200 sets with repeats; a prototype needed 752 different ones."""
    plan = plan_sets(12, 752, is_random=False, seed=0)

    assert 46 <= len(plan.permutations) / 2 <= 54
