"""The table `sweep`: members in grid order, proposals of a search, and changes since an earlier run."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from pytest_crucible.features.sweeps.grid import first_points, member_table, propose, read_family, sweep_changes
from pytest_crucible.features.sweeps.records import Sweep, SweepMember
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import from_plain, to_plain

TABLE = {"hyperparameters.steps": [9, 30], "lora": {"rank": [8, 32]}, "seed": [1], "by": "citation"}


def test_members_are_in_grid_order_and_named_by_the_last_part_of_their_keys():
    family = read_family("tuned", TABLE)

    assert list(family.members()) == [
        "tuned[steps=9,rank=8,seed=1]",
        "tuned[steps=9,rank=32,seed=1]",
        "tuned[steps=30,rank=8,seed=1]",
        "tuned[steps=30,rank=32,seed=1]",
    ]
    assert (family.by, family.confirm, family.drop) == ("citation", 0.5, "proven")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"parameters.top_p": [0.9, 1.0]}, "f[top_p=0.9]"),
        ({"path": ["a/b.jsonl", "c.jsonl"]}, "f[path=a/b.jsonl]"),
        ({"a.rate": [3e-3, 1], "b.rate": [True]}, "f[a.rate=0.003,b.rate=true]"),
    ],
)
def test_names_show_values_as_they_are_written(settings, name):
    assert next(iter(read_family("f", settings).members())) == name


def test_a_member_has_the_adapters_table_with_its_own_settings():
    table = {"backend": "local", "lora": {"rank": 8, "train_mlp": False}, "sweep": TABLE}

    assert member_table(table, {"lora.rank": 32, "seed": 1}) == {
        "backend": "local",
        "lora": {"rank": 32, "train_mlp": False},
        "seed": 1,
    }
    assert table["lora"] == {"rank": 8, "train_mlp": False}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (7, "adapter 'f' has sweep = 7: write a table, as in [adapters.f.sweep]"),
        ({"by": "a"}, "the sweep of 'f' names no key of the adapter: write for example"),
        ({"seed": 1}, "the sweep of 'f' has seed = 1: write a list of values"),
        ({"seed": [1, 2], "confrim": 0.3}, "the sweep of 'f' has confrim = 0.3: did you mean 'confirm'? write a list"),
        ({"seed": []}, "the sweep of 'f' has seed = []: write a list of values"),
        ({"seed": [1]}, "the sweep of 'f' has one member: give a key several values"),
        ({"seed": [1, 1]}, "the sweep of 'f' names a value twice: write each value once"),
        ({"seed": [1, 2], "by": 3}, "the sweep of 'f' has by = 3: write the name of the metric"),
        ({"seed": [1, 2], "confirm": 1}, "the sweep of 'f' has confirm = 1: write the share of samples"),
        ({"seed": [1, 2], "confirm": True}, "the sweep of 'f' has confirm = True: write the share of samples"),
        ({"seed": [1, 2], "drop": "worst"}, "the sweep of 'f' has drop = 'worst': write 'proven', 'half' or 'none'"),
    ],
)
def test_invalid_sweeps(table, sentence):
    with pytest.raises(SpecError) as caught:
        read_family("f", table).members()

    assert str(caught.value).startswith(sentence)


def test_a_key_below_a_value_that_is_no_table_is_refused():
    with pytest.raises(SpecError, match=r"it sweeps 'path\.a', but path is 'x' and no table"):
        member_table({"path": "x"}, {"path.a": 1})


RATE = {"low": 1e-4, "high": 1e-2, "log": True}
SEARCH_TABLE = {
    "lora": {"rate": RATE, "rank": {"low": 1, "high": 8}},
    "form": ["long", "short"],
    "search": {"trials": 6},
}


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
    family = read_family("f", SEARCH_TABLE)
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
        first_points(read_family("f", SEARCH_TABLE), 0)


SWEEP = Sweep(
    family="tuned",
    test="test_a.py::test_a",
    by="citation",
    confirm=0.5,
    drop="proven",
    grid={"hyperparameters.steps": (9, 30, 90), "seed": (1,)},
    members=tuple(SweepMember(name=f"tuned[{k}]", settings={"steps": k}, identity=f"m{k}") for k in (9, 30, 90)),
    choosing=20,
    choosing_sha256="samples",
    confirming=20,
    looks=(2, 5, 10),
)


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"grid": {**SWEEP.grid, "hyperparameters.steps": (9, 30, 120)}}, "steps"),
        ({"grid": {**SWEEP.grid, "lora.rank": (8,)}}, "swept no rank; now it sweeps rank = [8]: restore the grid"),
        ({"grid": {"seed": (1,)}}, "swept steps = [9, 30, 90]; now it sweeps no steps: restore the grid"),
        ({"drop": "half"}, "swept with drop = 'proven'; now it is 'half': restore it"),
        ({"choosing_sha256": "others"}, "chose on other samples than test_a.py::test_a has now: restore the dataset"),
        ({"members": (replace(SWEEP.members[0], identity="x"),)}, "had another model as tuned[9]: restore it"),
    ],
)
def test_each_change_has_a_clause(change, clause):
    clause = "swept steps = [9, 30, 90]; now it is [9, 30, 120]: restore the grid" if clause == "steps" else clause

    assert list(sweep_changes(SWEEP, replace(SWEEP, **change))) == [clause]


def test_a_stored_sweep_is_the_same():
    stored = from_plain(Sweep, to_plain(SWEEP))

    assert list(sweep_changes(stored, SWEEP)) == []
    assert stored.sha256 == SWEEP.sha256 != replace(SWEEP, drop="half").sha256
