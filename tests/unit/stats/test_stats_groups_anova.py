"""Omnibus tests of means and variances: hand-checkable values, laws for two arms, and data without variation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.groups.anova import anova_oneway, sums_of_squares
from pytest_crucible.stats.groups.noncentral_f import cohens_f_interval, eta_squared_interval, noncentrality_interval
from pytest_crucible.stats.groups.repeated import rm_anova
from pytest_crucible.stats.groups.separation import same_profile_p_value, separation_p_value
from pytest_crucible.stats.groups.variances import bartlett, levene, variance_ratio
from pytest_crucible.stats.groups.welch import welch_anova
from pytest_crucible.stats.means.student import paired_t
from pytest_crucible.stats.means.two_samples import student_t, welch_t

SCORES = st.integers(0, 100).map(lambda score: score / 100)
GROUPS = st.lists(st.lists(SCORES, min_size=2, max_size=8), min_size=2, max_size=5)
OMNIBUS = [anova_oneway, welch_anova, levene, bartlett]


@st.composite
def matrices(draw: st.DrawFn, columns: int | None = None) -> np.ndarray:
    k = columns or draw(st.integers(2, 5))
    n = draw(st.integers(2, 8))
    return np.array(draw(st.lists(st.lists(SCORES, min_size=k, max_size=k), min_size=n, max_size=n)))


def test_anova_of_a_table_that_can_be_done_by_hand():
    found = anova_oneway([[1, 2, 3], [2, 3, 4], [5, 6, 7]])
    squares = sums_of_squares([[1, 2, 3], [2, 3, 4], [5, 6, 7]])
    effects = {one.name: one.value for one in found.effects}

    assert (squares.between, squares.within) == pytest.approx((26, 6))
    assert found.statistic == pytest.approx(13)
    assert effects == pytest.approx(
        {
            "eta squared": 26 / 32,
            "omega squared": (26 - 2) / (32 + 1),
            "epsilon squared": (26 - 2) / 32,
            "cohens f": math.sqrt(26 / 6),
        }
    )


@given(GROUPS.filter(lambda groups: len(groups) == 2))
def test_with_two_groups_anova_is_student_and_welch_anova_is_welch(groups):
    anova, student = anova_oneway(groups), student_t(*groups)
    welch_f, welch = welch_anova(groups), welch_t(*groups)

    assert anova.status == student.status
    assert anova.p_value == pytest.approx(student.p_value, rel=1e-9)
    if anova.status == "ok":
        assert anova.statistic == pytest.approx(student.statistic**2, rel=1e-9, abs=1e-20)
        assert welch_f.statistic == pytest.approx(welch.statistic**2, rel=1e-9, abs=1e-20)
        assert welch_f.dof[1] == pytest.approx(welch.dof[0], rel=1e-9)
        assert welch_f.p_value == pytest.approx(welch.p_value, rel=1e-9)


@given(matrices(columns=2))
def test_with_two_columns_repeated_anova_is_the_paired_t_test(matrix):
    repeated, paired = rm_anova(matrix), paired_t(matrix[:, 0], matrix[:, 1])

    assert repeated.p_value == pytest.approx(paired.p_value, rel=1e-9)
    assert repeated.p_greenhouse_geisser == pytest.approx(repeated.p_value, rel=1e-9)
    if repeated.status == "ok":
        assert repeated.statistic == pytest.approx(paired.statistic**2, rel=1e-8, abs=1e-20)


@pytest.mark.parametrize("test", OMNIBUS)
@given(groups=GROUPS, shift=st.integers(-100, 100), data=st.data())
def test_shifting_scaling_and_reordering_change_nothing(test, groups, shift, data):
    plain = test(groups)
    moved = test([[3 * value + shift for value in data.draw(st.permutations(group))] for group in groups])
    reordered = test(data.draw(st.permutations(groups)))

    for other in (moved, reordered):
        assert other.status == plain.status
        assert (other.p_value is None) == (plain.p_value is None)
        if plain.p_value is not None:
            assert other.p_value == pytest.approx(plain.p_value, rel=1e-6, abs=1e-12)
        if plain.status == "ok":
            assert other.statistic == pytest.approx(plain.statistic, rel=1e-6, abs=1e-9)


@given(matrices(), st.integers(-100, 100))
def test_a_level_of_its_own_for_each_subject_changes_only_the_subjects(matrix, shift):
    own = shift * np.arange(len(matrix))[:, None]
    plain, moved = rm_anova(matrix), rm_anova(matrix + own)

    assert moved.status == plain.status
    assert moved.p_greenhouse_geisser == pytest.approx(plain.p_greenhouse_geisser, rel=1e-6, abs=1e-12)
    assert moved.ss_conditions == pytest.approx(plain.ss_conditions, rel=1e-6, abs=1e-9)


@given(matrices())
def test_the_parts_of_a_repeated_anova_add_up_and_epsilon_keeps_its_range(matrix):
    found, k = rm_anova(matrix), matrix.shape[1]
    total = float(np.sum((matrix - matrix.mean()) ** 2))

    assert found.ss_conditions + found.ss_subjects + found.ss_error == pytest.approx(total, abs=1e-12)
    if found.status == "ok":
        assert 1 / (k - 1) - 1e-12 <= found.greenhouse_geisser <= found.huynh_feldt <= 1
        assert 0 <= found.eta_squared_generalised <= found.eta_squared_partial <= 1


@given(st.floats(0, 50), st.integers(1, 6), st.integers(1, 200), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_the_effect_interval_excludes_0_exactly_when_the_test_says_so(statistic, df1, df2, level):
    from scipy.special import fdtrc

    n = df1 + df2 + 1
    low, high = noncentrality_interval(statistic, (df1, df2), level=level)
    eta = eta_squared_interval(statistic, (df1, df2), n, level=level)
    f = cohens_f_interval(statistic, (df1, df2), n, level=level)
    p_value = float(fdtrc(df1, df2, statistic))
    assume(abs(p_value - (1 - level) / 2) > 1e-9)

    assert 0 <= low <= high
    assert (eta.low > 0) == (p_value < (1 - level) / 2)
    assert 0 <= eta.low <= eta.high < 1
    assert (f.low**2 / (1 + f.low**2), f.high**2 / (1 + f.high**2)) == pytest.approx((eta.low, eta.high))


def test_ends_of_the_noncentrality_have_the_tails_that_they_promise():
    from scipy.special import ncfdtr

    low, high = noncentrality_interval(300.0, (3, 9996), level=0.9)

    assert ncfdtr(3, 9996, low, 300.0) == pytest.approx(0.95, abs=1e-10)
    assert ncfdtr(3, 9996, high, 300.0) == pytest.approx(0.05, abs=1e-10)


def test_welch_anova_with_one_constant_group_is_the_limit_of_a_small_variance():
    others = [[0.1, 0.5, 0.9, 0.4], [0.2, 0.3, 0.7]]
    exact = welch_anova([[0.5, 0.5, 0.5], *others])
    near = welch_anova([[0.5 - 1e-7, 0.5, 0.5 + 1e-7], *others])

    assert exact.status == "ok"
    assert exact.statistic == pytest.approx(near.statistic, rel=1e-6)
    assert exact.dof == pytest.approx(near.dof, rel=1e-6)


def test_welch_anova_with_two_constant_groups_has_no_answer_but_says_why():
    found = welch_anova([[1, 1, 1], [2, 2, 2], [1, 2, 3]])

    assert (found.statistic, found.p_value, found.status) == (None, None, "degenerate")
    assert found.note.startswith("2 of 3 groups")


@pytest.mark.parametrize("test", [anova_oneway, welch_anova])
def test_constant_groups_leave_only_counting(test):
    equal, apart = test([[1, 1], [1, 1, 1], [1, 1]]), test([[1.0] * 4, [0.0] * 5])

    assert (equal.statistic, equal.p_value, equal.status) == (None, 1.0, "degenerate")
    assert (apart.statistic, apart.status) == (None, "degenerate")
    assert apart.p_value == pytest.approx(2 / math.comb(9, 4))


def test_rounding_noise_is_no_variance():
    noisy = [0.1 + 0.2, 0.3, 0.3]

    assert anova_oneway([noisy, [0.3, 0.3]]).p_value == 1
    assert rm_anova([[0.1 + 0.2, 0.3], [0.3, 0.3], [0.3, 0.1 + 0.2]]).p_value == 1
    assert levene([[0.1, 0.3], [0.2, 0.4]]).p_value == 1


def test_values_whose_squares_underflow_are_compared_all_the_same():
    tiny = [[1e-180, 2e-180, 3e-180], [2e-180, 4e-180, 9e-180]]
    plain = [[1, 2, 3], [2, 4, 9]]

    assert anova_oneway(tiny).statistic == pytest.approx(anova_oneway(plain).statistic)
    assert welch_anova(tiny).statistic == pytest.approx(welch_anova(plain).statistic)
    assert bartlett(tiny).statistic == pytest.approx(bartlett(plain).statistic)


@pytest.mark.parametrize("groups", [[[0, 0], [1, 1]], [[0, 0, 0], [1]], [[0], [1, 1], [2]], [[0, 0], [0], [5]]])
def test_the_counted_p_value_is_never_below_that_of_all_arrangements(groups):
    arrays = [np.array(group, dtype=float) for group in groups]
    values, sizes = np.concatenate(arrays), [array.size for array in arrays]
    labels = np.repeat(np.arange(len(groups)), sizes)
    within = [
        all(np.ptp(values[np.array(order) == group]) == 0 for group in range(len(groups)))
        for order in set(itertools.permutations(labels.tolist()))
    ]

    assert np.mean(within) - 1e-12 <= separation_p_value(arrays, noise=0.0) <= 1


@pytest.mark.parametrize("profile", [[0, 1], [0, 1, 2], [0, 0, 1], [5, 5, 5]])
def test_the_p_value_of_equal_profiles_is_that_of_all_arrangements(profile):
    matrix = np.array([profile, profile, profile], dtype=float)
    orders = set(itertools.permutations(profile))

    assert same_profile_p_value(matrix) == pytest.approx(len(orders) ** -2.0)


def test_subjects_that_all_differ_alike_leave_only_counting():
    found = rm_anova([[1, 2, 4], [2, 3, 5], [0, 1, 3]])

    assert (found.statistic, found.status, found.eta_squared_partial) == (None, "degenerate", 1.0)
    assert found.p_greenhouse_geisser == pytest.approx(1 / 36)


@given(GROUPS)
def test_levene_is_anova_of_the_distances(groups):
    distances = [np.abs(np.array(group) - np.median(group)) for group in groups]
    assume(any(np.ptp(one) > 1e-9 for one in distances))
    found, anova = levene(groups), anova_oneway(distances)

    assert found.statistic == pytest.approx(anova.statistic, rel=1e-6, abs=1e-9)
    assert not found.effects


@given(st.lists(SCORES, min_size=2, max_size=8), st.lists(SCORES, min_size=2, max_size=8), st.sampled_from([0.8, 0.95]))
def test_the_variance_ratio_turns_over_with_the_arms_and_agrees_with_its_interval(x, y, level):
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    one, other = variance_ratio(x, y, level=level), variance_ratio(y, x, level=level)
    greater, less = variance_ratio(x, y, alternative="greater"), variance_ratio(x, y, alternative="less")
    assume(abs(one.p_value - (1 - level)) > 1e-9)

    assert one.statistic == pytest.approx(1 / other.statistic)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)
    assert one.interval.low == pytest.approx(1 / other.interval.high)
    assert one.interval.low <= one.estimate <= one.interval.high
    assert (one.interval.low > 1 or one.interval.high < 1) == (one.p_value < 1 - level)
    assert greater.p_value + less.p_value == pytest.approx(1)
    assert (less.interval.low, greater.interval.high) == (0, math.inf)


def test_constant_arms_have_no_ratio_of_variances():
    for found in (variance_ratio([1, 1], [1, 2]), bartlett([[1, 1], [1, 2]])):
        assert (found.statistic, found.p_value, found.status) == (None, None, "degenerate")


@pytest.mark.parametrize("test", OMNIBUS)
def test_what_is_no_group_is_refused_with_a_count(test):
    with pytest.raises(ValueError, match="1 of 2"):
        test([[1.0, math.nan], [1.0, 2.0]])
    with pytest.raises(ValueError, match="1 are empty"):
        test([[], [1.0, 2.0]])
    with pytest.raises(ValueError, match="at least 2 groups"):
        test([[1.0, 2.0]])
    with pytest.raises(NotEnoughData, match="at least 2"):
        test([[1.0], [2.0]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rm_anova([[1.0, math.nan], [1.0, 2.0]]), "1 of 4"),
        (lambda: rm_anova([[1.0], [2.0]]), "at least 2"),
        (lambda: levene([[1, 2], [1, 2]], centre="mode"), "not 'mode'"),
        (lambda: anova_oneway([[1, 2], [1, 2]], level=1.0), "level"),
        (lambda: noncentrality_interval(-1.0, (1, 2)), "F of at least 0"),
    ],
)
def test_wrong_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_too_few_rows_and_values_are_not_enough():
    with pytest.raises(NotEnoughData, match="1 subject"):
        rm_anova([[1.0, 2.0]])
    with pytest.raises(NotEnoughData, match="1 value"):
        variance_ratio([1.0], [1.0, 2.0])


def test_epsilons_by_hand():
    # Greenhouse and Geisser 25/41; Huynh and Feldt (n (k - 1) e - 2) / ((k - 1) (n - 1 - (k - 1) e)), n = 4, k = 3.
    found = rm_anova([[1, 2, 4], [2, 2, 5], [3, 5, 5], [4, 5, 8]])
    epsilon = 25 / 41

    assert found.statistic == pytest.approx(16.8)
    assert found.greenhouse_geisser == pytest.approx(epsilon)
    assert found.huynh_feldt == pytest.approx((8 * epsilon - 2) / (2 * (3 - 2 * epsilon)))
    assert found.p_value < found.p_huynh_feldt < found.p_greenhouse_geisser


def test_bartlett_of_two_groups_by_hand():
    # Variances 5/3 and 80/3 with 3 degrees of freedom each: 6 ln(85/6) - 3 ln(5/3) - 3 ln(80/3), over 1 + (2/3 - 1/6) / 3.
    found = bartlett([[1, 2, 3, 4], [2, 6, 10, 14]])
    spread = 6 * math.log(85 / 6) - 3 * math.log(5 / 3) - 3 * math.log(80 / 3)

    assert found.statistic == pytest.approx(spread / (1 + 0.5 / 3))
    assert found.dof == (1,)


def test_omega_and_epsilon_have_the_interval_of_the_share_that_they_estimate():
    found = {effect.name: effect for effect in anova_oneway([[1, 2, 3], [2, 3, 4], [5, 6, 7]], level=0.9).effects}
    share = eta_squared_interval(13.0, (2, 6), 9, level=0.9)

    for name in ("eta squared", "omega squared", "epsilon squared"):
        assert found[name].interval == share
        assert share.low < found[name].value < share.high
