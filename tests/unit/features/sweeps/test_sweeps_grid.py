"""The table `sweep`: members in grid order, their names and their tables."""

from __future__ import annotations

import pytest

from pytest_crucible.features.sweeps.grid import member_table, read_family
from pytest_crucible.records.errors import SpecError

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
