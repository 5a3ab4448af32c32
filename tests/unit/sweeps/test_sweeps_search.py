"""Searches: reading their table, and the settings that Optuna proposes."""

from __future__ import annotations

import sys

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.sweeps.grid import first_points, propose, read_family

RATE = {"low": 1e-4, "high": 1e-2, "log": True}
TABLE = {"lora": {"rate": RATE, "rank": {"low": 1, "high": 8}}, "form": ["long", "short"], "search": {"trials": 6}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"search": {"trials": 1}},
            "the sweep of 'f' has search = {'trials': 1}: write a whole number of trials, 2 or more",
        ),
        ({"search": {"trials": 2.5}}, "the sweep of 'f' has search = {'trials': 2.5}: write a whole"),
        ({"search": {"trials": True}}, "the sweep of 'f' has search = {'trials': True}: write a whole"),
        ({"search": {"trials": 9, "by": 1}}, "the sweep of 'f' has search = {'trials': 9, 'by': 1}: write a whole"),
        ({"search": 20}, "the sweep of 'f' has search = 20: write a whole"),
        ({"drop": "proven"}, "the sweep of 'f' has search and drop = 'proven', but each trial answers the whole"),
        ({"confirm": 0}, "the sweep of 'f' has search and confirm = 0, but verdicts on a search need samples"),
        ({"rate": 7}, "the sweep of 'f' has rate = 7: write a list of values, such as rate = [1, 2], or a range"),
        ({"rate": {"low": 2, "high": 1}}, "the sweep of 'f' has rate = {'low': 2, 'high': 1}: write low below high"),
        (
            {"rate": {"low": 0, "high": 1, "log": True}},
            "the sweep of 'f' has rate = {'low': 0, 'high': 1, 'log': True}: w",
        ),
        ({"rate": {"low": 0, "high": 1, "step": 1}}, "the sweep of 'f' has rate = {'low': 0, 'high': 1, 'step': 1}: w"),
        ({"rate": {"low": "a", "high": 1}}, "the sweep of 'f' has rate = {'low': 'a', 'high': 1}: write low"),
    ],
)
def test_invalid_searches(change, sentence):
    with pytest.raises(SpecError) as caught:
        read_family("f", {"form": ["long", "short"], "search": {"trials": 6}} | change)

    assert str(caught.value).startswith(sentence)


def test_a_range_needs_a_search():
    with pytest.raises(SpecError, match="has a range for rate, from which only a search proposes: add search"):
        read_family("f", {"rate": RATE})


def test_settings_lie_in_their_ranges_and_depend_on_the_seed():
    pytest.importorskip("optuna")
    family = read_family("f", TABLE)
    points = first_points(family, 0)

    assert (family.trials, family.drop, family.grid["lora.rate"]) == (6, "none", (RATE,))
    assert len(points) == 3
    assert points == first_points(family, 0) != first_points(family, 1)
    for point in points:
        assert 1e-4 <= point["lora.rate"] <= 1e-2
        assert point["lora.rank"] in range(1, 9)
        assert point["form"] in ("long", "short")


def test_proposals_go_where_scores_were_high():
    pytest.importorskip("optuna")
    family = read_family("f", {"x": {"low": 0.0, "high": 1.0}, "search": {"trials": 40}})
    scored = [({"x": x / 20}, -abs(x / 20 - 0.8)) for x in range(21)]
    points = [point for point, _ in scored]
    proposed = [propose(family, scored, seed=seed, number=21, tried=points)["x"] for seed in range(10)]

    assert sorted(proposed)[2] > 0.6
    assert proposed[0] == propose(family, scored, seed=0, number=21, tried=points)["x"]


def test_no_setting_is_proposed_twice():
    pytest.importorskip("optuna")
    family = read_family("f", {"form": ["long", "short"], "search": {"trials": 9}})
    points = first_points(family, 0)

    assert sorted(point["form"] for point in points) == ["long", "short"]
    assert propose(family, [(points[0], 1.0), (points[1], 0.0)], seed=0, number=4, tried=points) is None


def test_without_optuna_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)

    with pytest.raises(SpecError, match=r'needs Optuna: pip install "pytest-crucible\[optuna\]"'):
        first_points(read_family("f", TABLE), 0)
