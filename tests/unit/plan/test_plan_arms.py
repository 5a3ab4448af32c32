"""Pairs of arms that can be compared, and their order."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import SpecError
from pytest_crucible.plan.arms import check_arms, interleave_units
from pytest_crucible.records import Arm, ArmTraining, Unit

sizes = st.integers(1, 12)
seeds = st.integers(0, 2**32)


def arm(name: str, identity: str, **parameters: float) -> Arm:
    return Arm(name=name, role="candidate", adapter=name, identity=identity, parameters=parameters)


def trained_arm(name: str, *identities: str) -> Arm:
    trainings = (ArmTraining(name=f"{name}-seed{seed}", seed=seed, identity=of) for seed, of in enumerate(identities))
    return replace(arm(name, "all of them"), trainings=tuple(trainings))


@pytest.mark.parametrize(
    "arms",
    [
        [arm("v2", "bbb")],
        [arm("v2", "bbb"), arm("v1", "aaa"), arm("v0", "999")],
        [arm("cold", "aaa", temperature=0.0), arm("hot", "aaa", temperature=1.0)],
        [arm("bare", "aaa"), arm("hot", "aaa", temperature=1.0)],
    ],
    ids=["alone", "different", "other-parameters", "with-and-without"],
)
def test_arms_that_differ_may_meet(arms):
    check_arms(arms)


@pytest.mark.parametrize(
    ("arms", "sentence"),
    [
        ([arm("m@1", "b"), arm("m@1", "b")], "'production' (m@1) is named twice: compare an adapter with another one"),
        (
            [arm("v1", "b"), arm("m@1", "b")],
            "adapters 'v1' and 'production' (m@1) are the same checkpoint (b): compare two that differ",
        ),
    ],
    ids=["name", "checkpoint"],
)
def test_a_version_is_named_as_it_was_typed(arms, sentence):
    with pytest.raises(SpecError) as caught:
        check_arms(arms, {"m@1": "production"})

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("arms", "sentence"),
    [
        (
            [arm("v2", "bbb"), arm("v2", "bbb")],
            "'v2' is named twice: compare an adapter with another one",
        ),
        (
            [arm("v2", "bbb"), arm("v1", "aaa"), arm("v1", "aaa")],
            "'v1' is named twice: compare an adapter with another one",
        ),
        (
            [arm("v2", "0123456789abcdef"), arm("new", "0123456789abcdef")],
            "adapters 'v2' and 'new' are the same checkpoint (0123456789ab): compare two that differ",
        ),
        (
            [arm("v2", "bbb"), arm("v1", "aaa", seed=1, top_p=0.5), arm("old", "aaa", top_p=0.5, seed=1)],
            "adapters 'v1' and 'old' are the same checkpoint (aaa): compare two that differ",
        ),
        (
            [trained_arm("v2", "aaa", "bbb"), arm("old", "bbb")],
            "adapters 'v2' and 'old' are the same checkpoint (bbb): compare two that differ",
        ),
        (
            [trained_arm("v2", "aaa", "aaa")],
            "the trainings 'v2-seed0' and 'v2-seed1' are the same checkpoint: let the recipe use trainer.seed, or remove seeds",
        ),
    ],
    ids=["name", "baseline-name", "checkpoint", "baselines", "one-of-several", "alike"],
)
def test_arms_that_are_one_may_not_meet(arms, sentence):
    with pytest.raises(SpecError) as caught:
        check_arms(arms)

    assert str(caught.value) == sentence


def every(arms, repeats=1):
    return [(0, arm, repeat) for repeat in range(repeats) for arm in arms]


@given(sizes, st.sets(st.integers(0, 5), min_size=1), st.integers(1, 3), seeds)
def test_every_unit_is_asked_once(samples, arms, repeats, seed):
    units = list(interleave_units(range(samples), every(sorted(arms), repeats), seed=seed))

    assert Counter(units) == Counter(map(Unit._make, itertools.product(range(samples), [0], arms, range(repeats))))


@given(sizes, st.integers(1, 4), st.integers(1, 3), seeds)
def test_all_arms_of_a_sample_stand_side_by_side(samples, arms, repeats, seed):
    positions = [unit.position for unit in interleave_units(range(samples), every(range(arms), repeats), seed=seed)]

    assert positions == sorted(positions)


@given(seeds)
def test_the_same_seed_gives_the_same_order(seed):
    assert list(interleave_units(range(20), every((0, 1), 2), seed=seed)) == list(
        interleave_units(range(20), every((0, 1), 2), seed=seed)
    )


def test_another_seed_gives_another_order():
    assert list(interleave_units(range(20), every((0, 1)), seed=0)) != list(
        interleave_units(range(20), every((0, 1)), seed=1)
    )


def test_each_arm_is_first_about_as_often():
    units = list(interleave_units(range(1000), every((0, 1)), seed=0))
    first = Counter(unit.arm for unit in units[::2])

    assert abs(first[0] - first[1]) < 130  # four standard deviations


def test_units_are_drawn_as_they_are_needed():
    endless = interleave_units(range(10**12), every((0, 1)), seed=0)

    assert [unit.position for unit in itertools.islice(endless, 4)] == [0, 0, 1, 1]
