"""Thresholds by slice: fairlearn's rules on a stored run, and what is missing otherwise."""

from __future__ import annotations

import random
import sys

import pytest
from experiment_builders import store_run

from pytest_crucible import Reply, Sample, SpecError, fairness
from pytest_crucible.features.slices.decisions import Rule, Threshold, Thresholds
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.store.runs import RunStore

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

    with pytest.raises(SpecError) as caught:
        fairness.thresholds(**{"run": "latest", **arguments})

    assert problem in str(caught.value)


def test_fitted_rules_equalise_selection_rates():
    pytest.importorskip("fairlearn")
    import numpy as np

    from pytest_crucible.features.slices.mitigation import _fit, _load_fairlearn

    rng = random.Random(1)
    samples = [sample(rng.choice("fm"), name=f"{k}") for k in range(400)]
    outcome = np.array([float(rng.random() < (0.3 if one.metadata["sex"] == "f" else 0.6)) for one in samples])
    confidence = np.clip(0.3 + 0.4 * outcome + np.array([rng.gauss(0, 0.2) for _ in samples]), 0, 1)

    rules = _fit(_load_fairlearn(), By((Field("sex"),)), "demographic_parity", confidence, outcome, samples)

    chances = {sex: np.mean([rules[sex].chance(stated) for stated, one in zip(confidence, samples, strict=True)
                             if one.metadata["sex"] == sex]) for sex in "fm"}  # fmt: skip
    assert chances["f"] == pytest.approx(chances["m"], abs=0.02)
