"""A run with looks ends after the first samples of its order at which every verdict is settled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from answer_builders import analysis_inputs, arm
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.analyse.analysis import analyse, score_table
from pytest_crucible.analyse.stopping import in_order, settled_after, stop_early
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records.errors import SpecError

N = 120
ALPHA = 0.05
ORDER = list(range(N - 1, -1, -1))


def inputs(rates=(0.95, 0.5), *, seed=0, targets=("a >= 0.7",), contrasts=({},), groups=None, lost=()):
    rng = np.random.default_rng(seed)
    arms = [(rng.random(N) < rate).tolist() for rate in rates]
    for position in lost:
        arms[0][position] = "lost"
    run_inputs = analysis_inputs(*(arm(a=values) for values in arms))
    return replace(
        run_inputs,
        groups=groups or [None] * N,
        plan=replace(
            run_inputs.plan,
            planned=N,
            selected=N,
            targets=tuple(map(parse_target, targets)),
            contrasts=tuple(replace(parse_contrast("a", **claim), baseline="v1") for claim in contrasts),
            look_alpha=ALPHA,
        ),
    )


def verdicts(run_inputs, order):
    """The verdicts on the first samples of an order, were the run to end there."""
    table = in_order(score_table(run_inputs), order, ALPHA)
    analysis = analyse(run_inputs, table, alpha=ALPHA, family_size=1)
    return decide_verdicts(adjust_p_values([analysis], family_size=1), alpha=ALPHA, strict=True, family_size=1)


CLAIMS = st.sampled_from(
    [
        {},
        {"alternative": "superior"},
        {"margin": 0.2},
        {"alternative": "superior", "margin": 0.1},
        {"alternative": "equivalent", "margin": 0.4},
    ]
)


@pytest.mark.slow
@given(st.integers(0, 999), CLAIMS, st.sampled_from([(0.95, 0.4), (0.4, 0.95), (0.9, 0.9)]), st.booleans())
@settings(max_examples=30)
def test_verdicts_are_settled_at_the_end_and_not_before(seed, claim, rates, loses):
    run_inputs = inputs(rates, seed=seed, contrasts=(claim,), lost=(3, 50, 117) if loses else ())
    end = settled_after(run_inputs, ORDER, ALPHA)

    assert all(verdict.proven for verdict in verdicts(run_inputs, ORDER[: end or N])) == (end is not None)
    if end is not None:
        assert not all(verdict.proven for verdict in verdicts(run_inputs, ORDER[: end - 1]))


@given(st.integers(0, 999), st.sampled_from([(0.95, 0.4), (0.4, 0.95)]))
@settings(max_examples=20)
def test_a_relevant_difference_is_settled_when_it_is_excluded_or_exceeded(seed, rates):
    """Not as soon as a regression is proven: the bounds may still exclude that it matters."""
    run_inputs = inputs(rates, seed=seed, targets=(), contrasts=({"relevant": 0.2},))
    end = settled_after(run_inputs, ORDER, ALPHA)
    table = in_order(score_table(run_inputs), ORDER[:end], ALPHA)
    (comparison,) = analyse(run_inputs, table, alpha=ALPHA, family_size=1).comparisons
    (verdict,) = verdicts(run_inputs, ORDER[:end])
    bounds = comparison.evidence.observed

    assert end is not None
    assert (verdict.state, verdict.proven) == ("missed" if rates[0] < rates[1] else "met", True)
    assert bounds.upper < -0.2 if verdict.state == "missed" else bounds.lower > -0.2
    if verdict.state == "missed":
        assert settled_after(inputs(rates, seed=seed, targets=()), ORDER, ALPHA) < end


def test_a_group_is_one_value_and_is_not_cut():
    groups = [f"g{k // 3}" for k in range(N)]
    plain, grouped = settled_after(inputs(), ORDER, ALPHA), settled_after(inputs(groups=groups), ORDER, ALPHA)

    assert grouped % 3 == 0
    assert grouped > plain


def test_unequal_groups_count_their_samples():
    """Large groups are right by half, single samples always: .56 of samples, and .89 of the groups' means."""
    groups = [f"large{k // 13}" if k < 104 else f"single{k}" for k in range(N)]
    values = [k % 2 == 0 if k < 104 else True for k in range(N)]
    run_inputs = analysis_inputs(arm(a=values), arm(a=values))
    run_inputs = replace(
        run_inputs,
        groups=groups,
        plan=replace(run_inputs.plan, planned=N, selected=N, targets=(parse_target("a >= 0.7"),), look_alpha=ALPHA),
    )
    by_hand = np.mean(values)
    (target,) = analyse(run_inputs, in_order(score_table(run_inputs), ORDER, ALPHA), alpha=ALPHA, family_size=1).targets

    assert target.estimate.value == pytest.approx(by_hand)
    assert target.evidence.observed.lower < by_hand < 0.7


def test_the_largest_group_of_the_plan_weighs_before_it_is_seen():
    """Single samples prove nothing as fast while a group of 100 may still come."""
    with_large = [f"g{max(k - 99, 0)}" for k in range(N)]
    ends = [settled_after(inputs(groups=groups, contrasts=()), ORDER[:20], ALPHA) for groups in (None, with_large)]

    assert ends[0] is not None
    assert ends[1] is None


def test_replies_after_the_end_change_nothing():
    run_inputs = inputs()
    end = settled_after(run_inputs, ORDER, ALPHA)
    later = settled_after(run_inputs, ORDER[: end + 10], ALPHA)
    stopped = stop_early(run_inputs, ORDER, ALPHA)

    assert end == later == len(stopped.looked_at)
    assert settled_after(run_inputs, ORDER[: end - 1], ALPHA) is None
    assert stopped.finished
    assert not any(scores.lost.any() for scores in score_table(stopped).scores["a"])


def test_lost_samples_at_the_beginning_delay_the_end():
    assert settled_after(inputs(lost=ORDER[1:5:2]), ORDER, ALPHA) > settled_after(inputs(), ORDER, ALPHA)


def test_without_a_claim_there_is_nothing_to_settle():
    assert settled_after(inputs(targets=(), contrasts=()), ORDER, ALPHA) is None


def test_numbers_without_bounds_are_refused_when_they_are_seen():
    run_inputs = analysis_inputs(arm(a=[0.5] * N), arm(a=[0.6] * N))
    contrast = replace(parse_contrast("a"), baseline="v1")
    run_inputs = replace(
        run_inputs, groups=[None] * N, plan=replace(run_inputs.plan, metrics=(), contrasts=(contrast,))
    )

    with pytest.raises(
        SpecError, match=r"--crucible-stop needs bounded metrics and 'a' has no bounds: declare @metric"
    ):
        settled_after(run_inputs, ORDER, ALPHA)
