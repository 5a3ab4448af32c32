"""McNemar's power by enumeration, repeats, the split of a budget, and the smallest loss by falls."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy.stats import binom

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.planning.designs import split_budget
from pytest_crucible.stats.planning.next_sample import detectable_by_error
from pytest_crucible.stats.planning.paired_proportions import (
    power_mcnemar,
    power_paired_proportions,
    samples_for_mcnemar,
)
from pytest_crucible.stats.planning.proof import detectable_by_falls
from pytest_crucible.stats.planning.t_tests import detectable_mean
from pytest_crucible.stats.proportions.paired import mcnemar_exact, tango_p_value


def mid_p(fewer: int, discordant: int) -> float:
    return min(1.0, 2 * float(binom.cdf(fewer - 1, discordant, 0.5) + 0.5 * binom.pmf(fewer, discordant, 0.5)))


ENUMERATED = ["exact", "mid-p", "asymptotic"]
P_VALUES = {
    "exact": mcnemar_exact,
    "mid-p": lambda gained, lost: mid_p(min(gained, lost), gained + lost),
    "asymptotic": lambda gained, lost: tango_p_value(gained, lost, max(gained + lost, 1)),
}


@st.composite
def shares(draw):
    gained = draw(st.integers(0, 20)) / 20
    return gained, draw(st.integers(0, 20 - round(20 * gained))) / 20


@settings(max_examples=choose_examples(40))
@given(st.integers(0, 16), shares(), st.sampled_from(ENUMERATED), st.sampled_from([0.01, 0.05, 0.3]))
def test_power_is_the_sum_over_every_table(n, rates, method, alpha):
    gained_rate, lost_rate = rates
    expected = sum(
        math.comb(n, gained) * math.comb(n - gained, lost)
        * gained_rate**gained * lost_rate**lost * max(0.0, 1 - gained_rate - lost_rate) ** (n - gained - lost)
        for gained in range(n + 1)
        for lost in range(n - gained + 1)
        if P_VALUES[method](gained, lost) <= alpha
    )  # fmt: skip

    assert power_mcnemar(n, *rates, method=method, alpha=alpha) == pytest.approx(expected, rel=1e-11, abs=1e-15)


@settings(max_examples=choose_examples(40))
@given(st.integers(1, 400), st.floats(0, 0.5), st.sampled_from(ENUMERATED))
def test_swapping_the_arms_keeps_the_power_and_the_exact_test_its_level(n, rate, method):
    assert power_mcnemar(n, 0.3, rate, method=method) == pytest.approx(
        power_mcnemar(n, rate, 0.3, method=method), rel=1e-10
    )
    assert power_mcnemar(n, rate, rate, method="exact") <= 0.05
    assert power_mcnemar(n, rate, rate, method="mid-p") <= 0.075


@given(st.integers(2, 500), shares())
def test_the_tests_are_ordered(n, rates):
    exact, mid_p = power_mcnemar(n, *rates, method="exact"), power_mcnemar(n, *rates, method="mid-p")

    assert 0 <= exact <= mid_p + 1e-15 <= 1 + 1e-12


def test_enumeration_and_connor_agree_at_many_pairs():
    connor = power_mcnemar(20_000, 0.1, 0.093, method="connor")

    assert power_mcnemar(20_000, 0.1, 0.093, method="asymptotic") == pytest.approx(connor, abs=0.005)
    assert connor == power_paired_proportions(20_000, 0.1 - 0.093, 0.1 + 0.093)


@pytest.mark.parametrize("method", ENUMERATED)
@pytest.mark.parametrize("rates", [(0.2, 0.05), (0.9, 0.1), (0.05, 0.0), (0.5, 0.25)])
def test_no_larger_size_has_less_than_the_power_that_was_asked_for(method, rates):
    needed = samples_for_mcnemar(*rates, method=method)

    assert power_mcnemar(needed.ceiling - 1, *rates, method=method) < 0.8 <= needed.power
    assert all(power_mcnemar(n, *rates, method=method) >= 0.8 for n in range(needed.ceiling, 2 * needed.ceiling))


def test_what_cannot_be_a_pair_of_shares_is_refused():
    assert samples_for_mcnemar(0.1, 0.1).n == math.inf
    assert power_mcnemar(100, 0.0, 0.0) == 0.0
    with pytest.raises(ValueError, match=r"0\.7, 0\.5"):
        power_mcnemar(100, 0.7, 0.5)
    with pytest.raises(ValueError, match="must be at least 0, not -1"):
        power_mcnemar(-1, 0.1, 0.2)


# -- repeats ------------------------------------------------------------------------------------------------------


@given(
    st.integers(50, 3000), st.floats(0.001, 1), st.floats(0, 2), st.floats(0, 10), st.floats(0.1, 5),
    st.none() | st.integers(2, 500),
)  # fmt: skip
def test_no_other_split_of_the_budget_is_better(budget, between, within, sample_cost, repeat_cost, available):
    costs = {"sample_cost": sample_cost, "repeat_cost": repeat_cost}
    split = split_budget(budget, between=between, within=within, available=available, **costs)
    most = math.inf if available is None else available

    assert split.cost <= budget * (1 + 1e-9)
    assert 2 <= split.samples <= most
    assert split.detectable == pytest.approx(detectable_mean(split.samples, split.se * math.sqrt(split.samples)))
    for repeats in range(1, 40):
        samples = min(most, math.floor(budget / (sample_cost + repeats * repeat_cost)))
        if samples >= 2:
            assert split.se <= math.sqrt((between + within / repeats) / samples) * (1 + 1e-12)


def test_the_split_is_near_the_square_root_rule():
    """Noise four times the spread, and a sample nine times as dear as its answers: sqrt(4 * 9) = 6 repeats."""
    split = split_budget(1e6, between=0.1, within=0.4, sample_cost=9.0, repeat_cost=1.0)

    assert split.repeats == 6


def test_repeats_pay_only_where_samples_cost_or_run_out():
    assert split_budget(1000, between=0.1, within=5.0).repeats == 1
    few = split_budget(1000, between=0.1, within=5.0, available=100)

    assert (few.samples, few.repeats, few.cost) == (100, 5, 1000)
    assert split_budget(100, between=0.0, within=0.0).detectable is None


def test_budgets_that_pay_for_nothing_are_refused():
    with pytest.raises(NotEnoughData, match="budget of 3"):
        split_budget(3, between=0.1, within=0.1)
    with pytest.raises(NotEnoughData, match=r"^1 sample"):
        split_budget(100, between=0.1, within=0.1, available=1)
    with pytest.raises(ValueError, match="not both 0"):
        split_budget(100, between=0.1, within=0.1, repeat_cost=0.0)
    with pytest.raises(ValueError, match="variances must be finite"):
        split_budget(100, between=-1.0, within=0.1)


# -- the smallest loss by falls -----------------------------------------------------------------------------------


def test_without_noise_enough_samples_have_to_fall():
    loss = detectable_by_falls(100, 1e-9, [1.0])

    # Five equal falls are proof in 0.05 * 2^4 = 80 % of runs with noise that breaks ties, six in all.
    chances = sum(binom.pmf(k, 100, loss) * min(1.0, 0.05 * 2 ** (k - 1)) for k in range(4, 101))
    assert chances == pytest.approx(0.8, abs=0.03)


def test_a_fall_of_all_samples_may_be_unseen():
    assert detectable_by_falls(4, 0.5, [0.01]) is None
    assert detectable_by_falls(50, 0.1, [0.0, 0.0]) is None


@given(st.integers(10, 2000), st.floats(0.01, 0.5), st.floats(0.3, 1.0))
def test_more_samples_see_smaller_losses(n, deviation, fall):
    few, many = (detectable_by_falls(size, deviation, [fall, fall / 2]) for size in (n, 2 * n))

    assert few is None or many <= few


@given(st.integers(30, 2000), st.floats(0.01, 0.3))
def test_a_loss_by_falls_has_to_be_larger_than_one_that_is_spread(n, deviation):
    falls = detectable_by_falls(n, deviation, [1.0])

    assert falls >= 0.97 * detectable_by_error(deviation / n**0.5, n - 1)
