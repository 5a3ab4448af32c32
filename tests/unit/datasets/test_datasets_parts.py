"""Folds, splits and stratified subsets: they part a dataset, keep groups together, and hardly change when it grows."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import DatasetError, Sample
from pytest_crucible.datasets import select, subset
from pytest_crucible.datasets.selection import fold, split
from pytest_crucible.records import Selection


def sample(number: int, *, labels: int = 3, groups: int | None = None) -> Sample:
    group = None if groups is None else f"g{number % groups}"
    return Sample(id=f"s{number}", input=number, group=group, metadata={"label": "abcdefgh"[number % labels]})


def ids(samples) -> list[str]:
    return [one.id for one in samples]


datasets = st.builds(
    lambda size, labels, groups: [sample(number, labels=labels, groups=groups) for number in range(size)],
    st.integers(1, 60),
    st.integers(1, 5),
    st.none() | st.integers(1, 20),
)


# -- folds and splits ---------------------------------------------------------------------------------------------


@given(datasets, st.integers(1, 7), st.sampled_from([None, "label"]))
def test_the_folds_are_the_dataset_and_no_group_straddles_two(samples, of, stratify):
    folds = [fold(samples, f"{number}/{of}", stratify=stratify) for number in range(1, of + 1)]

    assert sorted(one for part in folds for one in ids(part)) == sorted(ids(samples))
    where = {}
    for number, part in enumerate(folds):
        for one in part:
            assert where.setdefault(one.group or one.id, number) == number


@given(datasets, st.floats(0.01, 0.99), st.sampled_from([None, "label"]))
def test_train_and_test_are_the_dataset_and_no_group_straddles_them(samples, share, stratify):
    said = f"{share:.4f}"
    test, train = (split(samples, f"{part} {said}", stratify=stratify) for part in ("test", "train"))

    assert sorted(ids(test) + ids(train)) == sorted(ids(samples))
    assert not {one.group for one in test if one.group} & {one.group for one in train}


def test_folds_are_of_one_size():
    samples = [sample(number) for number in range(103)]

    assert {len(fold(samples, f"{number}/5")) for number in range(1, 6)} <= {20, 21}
    assert len(split(samples, "test 0.2")) in (20, 21)


def test_a_stratified_fold_has_its_share_of_every_label():
    samples = [sample(number, labels=4) for number in range(200)]

    for number in range(1, 6):
        counts = Counter(one.metadata["label"] for one in fold(samples, f"{number}/5", stratify="label"))
        assert counts == dict.fromkeys("abcd", 10)


def test_many_strata_of_one_do_not_fall_into_one_fold():
    samples = [Sample(id=f"s{number}", input=0, metadata={"label": number}) for number in range(200)]

    assert all(20 <= len(fold(samples, f"{number}/5", stratify="label")) <= 60 for number in range(1, 6))


@given(st.integers(20, 120), st.sampled_from([2, 5, 10]))
def test_a_row_more_moves_few_samples_to_another_fold(size, of):
    samples = [sample(number) for number in range(size + 1)]
    before, after = (
        {one: number for number in range(1, of + 1) for one in ids(fold(some, f"{number}/{of}"))}
        for some in (samples[:-1], samples)
    )

    assert sum(after[one] != number for one, number in before.items()) <= of


def test_the_order_of_the_rows_does_not_matter():
    samples = [sample(number, groups=12) for number in range(50)]

    assert set(ids(fold(samples[::-1], "1/3"))) == set(ids(fold(samples, "1/3")))


def test_another_seed_gives_other_folds():
    samples = [sample(number) for number in range(50)]

    assert ids(fold(samples, "1/3 seed 1")) != ids(fold(samples, "1/3"))


# -- stratified subsets -------------------------------------------------------------------------------------------


@given(datasets, st.integers(1, 60), st.integers(0, 3))
def test_a_stratified_subset_has_the_size_that_is_asked_for(samples, limit, seed):
    drawn = subset(samples, limit, seed=seed, stratify="label")

    assert len(drawn) == min(limit, len(samples))
    assert [one for one in samples if one in drawn] == list(drawn)


@given(datasets, st.integers(1, 30), st.integers(1, 30), st.integers(0, 3))
def test_stratified_subsets_are_nested(samples, one, other, seed):
    small, large = (subset(samples, limit, seed=seed, stratify="label") for limit in sorted((one, other)))

    assert set(ids(small)) <= set(ids(large))


def test_a_stratified_subset_has_the_shares_of_the_whole():
    samples = [Sample(id=f"s{n}", input=n, expected="yes" if n % 10 else "no") for n in range(1000)]
    drawn = subset(samples, 100, seed=0, stratify="expected")

    assert Counter(one.expected for one in drawn) == {"yes": 90, "no": 10}


def test_nine_single_strata_and_four_samples_are_four_samples():
    samples = [Sample(id=f"s{n}", input=n, expected=n) for n in range(9)]

    assert len(subset(samples, 4, seed=0, stratify="expected")) == 4


# -- together -----------------------------------------------------------------------------------------------------


def test_a_split_a_fold_of_it_and_some_of_those():
    samples = [sample(number) for number in range(100)]
    train = split(samples, "train 0.2")
    chosen = select(samples, Selection(of=100, seed=0, split="train 0.2", fold="1/2", limit=5))

    assert len(chosen) == 5
    assert set(ids(chosen)) <= set(ids(fold(train, "1/2")))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"fold": "6/5"}, "fold='6/5' is not valid: write '2/5' for the second of five folds"),
        ({"fold": "0/5"}, "fold='0/5' is not valid: write '2/5' for the second of five folds"),
        ({"fold": 2}, "fold=2 is not valid: write '2/5' for the second of five folds"),
        (
            {"split": "dev 0.2"},
            "split='dev 0.2' is not valid: write 'test 0.2' for a fifth, and 'train 0.2' for the rest",
        ),
        (
            {"split": "test 0.0"},
            "split='test 0.0' is not valid: write 'test 0.2' for a fifth, and 'train 0.2' for the r",
        ),
        ({"limit": 2, "stratify": "lable"}, "sample 's0' has no field 'lable' to stratify by: did you mean 'label'?"),
        (
            {"limit": 2, "stratify": "xyz"},
            "sample 's0' has no field 'xyz' to stratify by: it has 'label', 'expected', 'group'",
        ),
        ({"fold": "1/999"}, "fold='1/999' selects none of 10 samples: select larger parts"),
    ],
)
def test_what_cannot_be_meant(given, complaint):
    samples = [sample(number) for number in range(10)]

    with pytest.raises(DatasetError) as caught:
        select(samples, Selection(of=10, seed=0, **given))
    assert str(caught.value).startswith(complaint)
