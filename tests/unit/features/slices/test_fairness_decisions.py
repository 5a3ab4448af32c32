"""Metrics of a decision, the parities by name, and Kamiran and Calders' weights."""

from __future__ import annotations

import re

import pytest

from pytest_crucible import NotApplicable, Reply, Sample, SpecError, fairness
from pytest_crucible.plan.targets import parse_target


def read(reply):
    return reply.text.split()[0] if reply.text else None


def stated(reply):
    return float(reply.text.split()[1])


METRICS = {each.name: each for each in fairness.decision(read, favourable="approve", confidence=stated)}


def scores(reply, expected):
    sample = Sample(id="a", input="?", expected=expected)
    values = {name: metric(Reply(text=reply), sample) for name, metric in METRICS.items()}
    return {name: None if isinstance(value, NotApplicable) else value for name, value in values.items()}


def test_a_decision_has_the_metrics_of_the_parities():
    assert scores("approve 0.8", "approve") == {
        "correct": True, "selected": True, "true_positive": True, "false_positive": None, "right_if_selected": True,
        "overconfidence": pytest.approx(-0.2), "stated_probability": 0.8,
    }  # fmt: skip
    assert scores("Approve 0.6", "deny") == {
        "correct": False, "selected": True, "true_positive": None, "false_positive": True, "right_if_selected": False,
        "overconfidence": pytest.approx(0.6), "stated_probability": 0.6,
    }  # fmt: skip
    assert scores("deny 0.1", {"label": "approve", "sex": "f"})["true_positive"] is False
    assert scores("deny 0.1", "deny")["right_if_selected"] is None


def test_an_unreadable_decision_is_wrong_and_not_favourable():
    metrics = {each.name: each for each in fairness.decision(lambda reply: None, favourable="approve")}
    sample, reply = Sample(id="a", input="?", expected="approve"), Reply(text="?")

    assert [metrics[name](reply, sample) for name in ("correct", "selected", "true_positive")] == [False] * 3
    assert isinstance(metrics["right_if_selected"](reply, sample), NotApplicable)


def test_directions_and_bounds_are_declared():
    assert METRICS["false_positive"].facts.direction == "lower"
    assert (METRICS["overconfidence"].facts.low, METRICS["overconfidence"].facts.high) == (-1, 1)


def test_the_version_depends_on_the_rule():
    other = fairness.decision(lambda reply: reply.text, favourable="approve")[0]

    assert other.facts.version != METRICS["correct"].facts.version
    assert fairness.decision(read, favourable="deny")[0].facts.version != METRICS["correct"].facts.version


def test_a_favourable_answer_that_no_sample_expects_is_an_error():
    samples = [Sample(id=str(k), input="?", expected=answer) for k, answer in enumerate(["approve", "deny"])]
    check = fairness.decision(read, favourable="yes")[0].check

    assert check(samples) == 'favourable="yes" is not an expected answer; choose "approve" or "deny"'
    assert METRICS["correct"].check(samples) == ""
    assert "no sample has an expected answer" in check([Sample(id="a", input="?")])


def test_a_probability_above_1_is_an_error():
    metrics = fairness.decision(read, favourable="approve", confidence=lambda reply: 80)[-2:]

    for metric in metrics:
        with pytest.raises(ValueError, match="return a probability from 0 to 1"):
            metric(Reply(text="approve"), Sample(id="a", input="?", expected="approve"))


@pytest.mark.parametrize(
    ("function", "target"),
    [
        ("demographic_parity", "gap(selected by sex) <= 0.10"),
        ("disparate_impact", "ratio(selected by sex) >= 0.80"),
        ("equalized_odds", "gap(true_positive, false_positive by sex) <= 0.10"),
        ("equal_opportunity", "gap(true_positive by sex) <= 0.10"),
        ("predictive_parity", "gap(right_if_selected by sex) <= 0.10"),
        ("calibration", "gap(overconfidence by sex) <= 0.10"),
    ],
)
def test_parities_are_targets_by_proof(function, target):
    made = getattr(fairness, function)(by="sex")

    assert made == target
    assert parse_target(made).decide == "bound"


def test_parities_accept_the_fields_and_limits_of_targets():
    assert fairness.equalized_odds(by="sex & age(25, 45)", limit=0.025).endswith("by sex & age(25, 45)) <= 0.025")
    for wrong in ({"by": "sex &"}, {"by": 3}, {"by": "sex", "limit": 10}, {"by": "sex", "limit": True}):
        with pytest.raises(SpecError, match=r"fairness\.demographic_parity has"):
            fairness.demographic_parity(**wrong)


def test_weights_of_adult():
    """AIF360 0.6.1's Reweighing on UCI Adult."""
    counts = {("f", ">50K"): 1179, ("f", "<=50K"): 9592, ("m", ">50K"): 6662, ("m", "<=50K"): 15128}
    rows = [{"sex": sex, "income": income} for (sex, income), n in counts.items() for _ in range(n)]

    weights = {(row["sex"], row["income"]): row["weight"] for row in fairness.reweigh(rows, by="sex", label="income")}

    assert weights == {
        ("f", ">50K"): pytest.approx(2.199966, abs=1e-6), ("f", "<=50K"): pytest.approx(0.852506, abs=1e-6),
        ("m", ">50K"): pytest.approx(0.787637, abs=1e-6), ("m", "<=50K"): pytest.approx(1.093519, abs=1e-6),
    }  # fmt: skip


def test_weights_are_multiplied_and_samples_become_rows():
    rows = [Sample(id=f"{k}", input="?", expected="yn"[k % 2], metadata={"sex": "fm"[k // 2]}) for k in range(4)]

    assert [row["weight"] for row in fairness.reweigh(rows, by="sex", label="expected")] == [1.0] * 4
    doubled = [{"sex": sex, "y": y, "weight": 2} for sex in "fm" for y in "01"]
    assert [row["weight"] for row in fairness.reweigh(doubled, by="sex", label="y")] == [2.0] * 4
    nested = [{"client": {"sex": sex}, "expected": {"y": y}} for sex in "fm" for y in "01"]
    assert [row["weight"] for row in fairness.reweigh(nested, by="client.sex", label="y")] == [1.0] * 4
    with pytest.raises(SpecError, match="row 2 has no 'sex'"):
        fairness.reweigh([{"sex": "f", "y": 1}, {"y": 1}], by="sex", label="y")
    with pytest.raises(SpecError, match="every row has sex = 'f'"):
        fairness.reweigh([{"sex": "f", "y": 1}, {"sex": "f", "y": 0}], by="sex", label="y")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"sex": None, "y": 1}], "row 1 has sex = None; leave it out, or give it a value"),
        ([{"sex": "", "y": 1}], "row 1 has sex = ''"),
        ([{"sex": float("nan"), "y": 1}], "row 1 has sex = nan"),
        ([{"sex": s, "y": s, "weight": "2"} for s in "fm"], "row 1 has weight = '2'; write a number of at least 0"),
        ([{"sex": s, "y": s, "weight": float("nan")} for s in "fm"], "row 1 has weight = nan"),
        ([7], "row 1 is a number; pass mappings"),
        (None, "reweigh has rows=None: read the file first"),
        ("rows.jsonl", "reweigh has rows='rows.jsonl': read the file first"),
    ],
)
def test_rows_without_a_value_or_with_a_wrong_weight_are_refused(rows, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        fairness.reweigh(rows, by="sex", label="y")
