"""Metrics of a decision, the parities by name, thresholds by slice, and Kamiran and Calders' weights."""

from __future__ import annotations

import random
import re
import sys

import pytest
from experiment_builders import store_run

from pytest_crucible import NotApplicable, Reply, Sample, SpecError, fairness
from pytest_crucible.features.slices.decisions import Rule, Threshold, Thresholds
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.store.runs import RunStore


def read(reply):
    return reply.text.split()[0] if reply.text else None


def read_probability(reply):
    return float(reply.text.split()[1])


METRICS = {each.name: each for each in fairness.decision(read, favourable="approve", confidence=read_probability)}


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
    text = getattr(fairness, function)(by="sex")

    assert text == target
    assert parse_target(text).decide == "bound"


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


RULES = {"f": Rule(((1.0, Threshold(0.3)), (0.0, Threshold(0.5)))), "m": Rule(((1.0, Threshold(0.6)),))}
FITTED = Thresholds(by=By((Field("sex"),)), rules=RULES, sample_ids=("a", "b"))


def sample(sex, name="a", expected="yes"):
    return Sample(id=name, input="?", expected=expected, metadata={"sex": sex})


def test_each_slice_has_its_threshold():
    metrics = {
        each.name: each
        for each in fairness.decision(FITTED, favourable="yes", confidence=lambda reply: float(reply.text))
    }

    assert metrics["selected"](Reply(text="0.4"), sample("f")) is True
    assert metrics["selected"](Reply(text="0.4"), sample("m")) is False
    assert metrics["correct"](Reply(text="0.4"), sample("m")) is False
    assert metrics["correct"].fitted_on == ("a", "b")
    with pytest.raises(ValueError, match="is not in a slice of sex that thresholds know: 'f', 'm'"):
        metrics["selected"](Reply(text="0.4"), sample("x"))


def test_a_random_rule_is_the_same_for_one_sample_and_fair_over_many():
    half = Thresholds(
        by=By((Field("sex"),)), rules={"f": Rule(((0.5, Threshold(0.0)), (0.5, Threshold(1.0))))}, sample_ids=()
    )

    chosen = [half.selects(0.5, sample("f", name=f"s{k}")) for k in range(400)]

    assert chosen == [half.selects(0.5, sample("f", name=f"s{k}")) for k in range(400)]
    assert 160 < sum(chosen) < 240
    assert Rule((), ignore=0.4, constant=0.5).chance(0.9) == 0.2


def test_thresholds_need_the_confidence():
    with pytest.raises(SpecError, match=r"pass decision\(..., confidence=...\) too"):
        fairness.decision(FITTED, favourable="yes")


def test_without_fairlearn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fairlearn.postprocessing", None)

    with pytest.raises(SpecError, match=r'thresholds needs fairlearn; pip install "pytest-crucible\[fairness\]"'):
        fairness.thresholds("latest", by="sex")


def test_a_run_without_stated_probabilities_is_explained(tmp_path):
    pytest.importorskip("fairlearn")
    where = str(tmp_path / "runs.db")
    store = RunStore(where)
    store_run(store, "r1", [sample("fm"[k % 2], name=f"{k}") for k in range(4)], v2=[True] * 4)
    store.close()

    with pytest.raises(SpecError, match="has no stated probabilities"):
        fairness.thresholds("r1", by="sex", store=where)
    with pytest.raises(SpecError, match="no run store at"):
        fairness.thresholds("r1", by="sex", store=str(tmp_path / "none.db"))
    with pytest.raises(SpecError, match="write one of demographic_parity"):
        fairness.thresholds("r1", by="sex", constraint="parity", store=where)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"by": "sex within age"}, "within standardises gap, ratio and worst only; leave it out"),
        ({"by": "sex", "store": None}, "thresholds has store=None: write it as text"),
        ({"by": "sex", "run": 7}, "thresholds has run=7: write it as text"),
    ],
)
def test_invalid_arguments_of_thresholds_are_errors(arguments, problem):
    pytest.importorskip("fairlearn")

    with pytest.raises(SpecError, match=re.escape(problem)):
        fairness.thresholds(**{"run": "latest", **arguments})


def test_fitted_rules_equalise_selection_rates():
    pytest.importorskip("fairlearn")
    import numpy as np

    from pytest_crucible.features.slices.mitigation import _fit, _load_fairlearn

    rng = random.Random(1)
    samples = [sample(rng.choice("fm"), name=f"{k}") for k in range(400)]
    outcome = np.array([float(rng.random() < (0.3 if person.metadata["sex"] == "f" else 0.6)) for person in samples])
    confidence = np.clip(0.3 + 0.4 * outcome + np.array([rng.gauss(0, 0.2) for _ in samples]), 0, 1)

    rules = _fit(_load_fairlearn(), By((Field("sex"),)), "demographic_parity", confidence, outcome, samples)

    chances = {sex: np.mean([rules[sex].chance(stated) for stated, person in zip(confidence, samples, strict=True)
                             if person.metadata["sex"] == sex]) for sex in "fm"}  # fmt: skip
    assert chances["f"] == pytest.approx(chances["m"], abs=0.02)
