import numpy as np
import pytest
from fragility_judge import FLAG, SCORE, ask_first, decide_run, inputs_of_rows

from pytest_crucible.features.provenance.influence import measure_influence, weigh_sample
from pytest_crucible.records import Contrast

REGRESSION = Contrast(metric="m", baseline="v1")


def influence_of(*arms, metric=FLAG, **facts):
    item = ask_first(inputs_of_rows(*arms, metric=metric, **facts))
    assert item.question is not None, item.undefined
    return item.question, measure_influence(item.question)


def test_the_pairs_that_only_one_arm_got_right_carry_a_comparison():
    v2 = [[True], [True], [False], [False], [False], [True]]
    v1 = [[True], [False], [True], [True], [False], [True]]

    _, influence = influence_of(v2, v1, contrasts=(REGRESSION,))

    assert influence.unit == "sample"
    assert influence.names == ("q2", "q3")
    assert influence.changes == pytest.approx([0 / 5 - -1 / 6] * 2)


def test_scores_are_ordered_by_how_much_the_estimate_changes_without_each():
    values = [[0.1], [0.9], [0.4], [0.35]]

    _, influence = influence_of(values, metric=SCORE, targets=("m >= 0.9",))

    mean = np.mean(values)
    without = {f"q{k}": np.mean([row for j, row in enumerate(values) if j != k]) - mean for k in range(4)}
    assert influence.names == ("q0", "q3", "q2")
    assert influence.changes == pytest.approx([without[name] for name in influence.names])


def test_influence_starts_with_groups_where_the_plan_has_some():
    v2 = [[False]] * 4 + [[True]] * 6
    v1 = [[True]] * 10
    groups = [*"aaaabbccdd"]

    _, influence = influence_of(v2, v1, contrasts=(REGRESSION,), groups=groups)

    assert influence.unit == "group"
    assert influence.names == ("a",)
    assert influence.changes == pytest.approx([0.4])


def test_a_sample_without_which_a_verdict_has_another_state_decides_alone():
    rows = [[True]] * 8 + [[False]] * 2
    question, influence = influence_of(rows, targets=("m >= 0.8",))

    without = decide_run(inputs_of_rows(rows[1:], metric=FLAG, targets=("m >= 0.8",))).verdicts[0]
    weight = weigh_sample(question, 0)

    assert without.state == "missed"
    assert influence.decides_alone == influence.names == tuple(f"q{k}" for k in range(8))
    assert (weight.state_without, weight.decides_alone, weight.weight, weight.value) == ("missed", True, 0.1, 1.0)


def test_a_sample_whose_other_answer_would_change_the_state_decides_alone():
    rows = [[True]] * 6 + [[False]] * 5
    question, _ = influence_of(rows, targets=("m >= 0.5",))

    assert decide_run(inputs_of_rows(rows[1:], metric=FLAG, targets=("m >= 0.5",))).verdicts[0].state == "met"
    other = [[False], *rows[1:]]
    assert decide_run(inputs_of_rows(other, metric=FLAG, targets=("m >= 0.5",))).verdicts[0].state == "missed"
    weight = weigh_sample(question, 0)
    assert (weight.state_without, weight.decides_alone) == ("met", True)


def test_a_sample_of_many_does_not_decide_alone():
    v2, v1 = [[True]] * 60 + [[False]] * 40, [[True]] * 100
    question, influence = influence_of(v2, v1, contrasts=(REGRESSION,))
    weight = weigh_sample(question, 99)

    assert influence.decides_alone == ()
    assert (weight.state_without, weight.decides_alone, weight.value) == ("missed", False, -1.0)


def test_a_sample_that_a_verdict_is_not_about_has_no_weight():
    question, _ = influence_of([[True], [None], [True]], targets=("m >= 0.8",))

    assert weigh_sample(question, 1) is None


def test_an_estimate_at_the_baseline_is_carried_by_no_sample():
    _, influence = influence_of([[True], [False]] * 3, [[False], [True]] * 3, contrasts=(REGRESSION,))

    assert influence.names == ()
    assert influence.undefined == "its estimate equals what it is compared with"


def test_the_influence_of_the_only_sample_is_not_defined():
    _, influence = influence_of([[True]], targets=("m >= 0.5",))

    assert influence.undefined == "it has one sample only"


def test_a_group_of_one_sample_is_named_by_the_sample():
    _, influence = influence_of([[False], [False], [True], [True]], targets=("m >= 0.9",), groups=[*"aabc"])
    _, alone = influence_of([[False], [False], [True], [False]], targets=("m >= 0.9",), groups=[*"aabc"])

    assert (influence.names, influence.sizes) == (("a",), (2,))
    assert (alone.names, alone.sizes) == (("a", "q3"), (2, 1))


def test_the_influence_on_other_statistics_is_unknown():
    _, influence = influence_of([[0.1], [0.5], [0.9]], metric=SCORE, targets=("p50(m) >= 0.2",))

    assert influence.undefined == "it is known of means and rates, not of a percentile"


def test_groups_of_unequal_size_change_a_mean_of_samples():
    rows = [[0.0], [0.0], [0.0], [1.0], [1.0], [0.5]]
    _, influence = influence_of(rows, metric=SCORE, targets=("m >= 0.9",), groups=[*"aaabbc"])

    assert influence.names == ("a",)
    assert influence.changes == pytest.approx([2.5 / 3 - 2.5 / 6])


def test_repeats_are_averaged_before_a_sample_is_left_out():
    rows = [[True, True], [True, False], [False, False]]
    _, influence = influence_of(rows, metric=FLAG, targets=("m >= 0.9",))

    assert influence.names == ("q2",)
    assert influence.changes == pytest.approx([0.75 - 0.5])
