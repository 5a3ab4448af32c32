"""Seeded subsets, folds and splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import datasets

from pytest_crucible import DatasetError, Sample
from pytest_crucible.datasets import select, subset
from pytest_crucible.datasets.selection import fold, split
from pytest_crucible.records import Selection

seeds = st.integers(0, 2**32)
sizes = st.integers(1, 40)


def ids(samples: Iterable[Sample]) -> set[str]:
    return {sample.id for sample in samples}


def part_ids(samples: Iterable[Sample]) -> list[str]:
    return [sample.id for sample in samples]


@given(datasets(), sizes, seeds)
def test_a_subset_has_its_size_and_the_order_of_the_dataset(samples, limit, seed):
    drawn = subset(samples, limit, seed=seed)

    assert len(drawn) == min(limit, len(samples))
    assert drawn == [sample for sample in samples if sample in drawn]


@given(datasets(), sizes, sizes, seeds)
def test_subsets_are_nested(samples, size, other_size, seed):
    smaller, larger = sorted((size, other_size))

    assert ids(subset(samples, smaller, seed=seed)) <= ids(subset(samples, larger, seed=seed))


@given(datasets(), sizes, seeds, st.randoms())
def test_a_subset_does_not_depend_on_the_order_of_the_dataset(samples, limit, seed, random):
    shuffled = random.sample(samples, len(samples))

    assert ids(subset(shuffled, limit, seed=seed)) == ids(subset(samples, limit, seed=seed))


@given(datasets(), datasets(), sizes, seeds)
def test_a_subset_is_stable_when_the_dataset_grows(samples, more, limit, seed):
    grown = samples + [sample for sample in more if sample.id not in ids(samples)]

    assert ids(subset(grown, limit, seed=seed)) & ids(samples) <= ids(subset(samples, limit, seed=seed))


def sample(number: int, *, labels: int = 3, groups: int | None = None) -> Sample:
    group = None if groups is None else f"g{number % groups}"
    return Sample(id=f"s{number}", input=number, group=group, metadata={"label": "abcdefgh"[number % labels]})


datasets = st.builds(
    lambda size, labels, groups: [sample(number, labels=labels, groups=groups) for number in range(size)],
    st.integers(1, 60),
    st.integers(1, 5),
    st.none() | st.integers(1, 20),
)


# -- folds and splits ---------------------------------------------------------------------------------------------


@given(datasets, st.integers(1, 7), st.sampled_from([None, "label"]))
def test_folds_partition_the_dataset_by_whole_groups(samples, of, stratify):
    folds = [fold(samples, f"{number}/{of}", stratify=stratify) for number in range(1, of + 1)]

    assert sorted(member for part in folds for member in part_ids(part)) == sorted(part_ids(samples))
    where = {}
    for number, part in enumerate(folds):
        for member in part:
            assert where.setdefault(member.group or member.id, number) == number


@given(datasets, st.floats(0.01, 0.99), st.sampled_from([None, "label"]))
def test_train_and_test_partition_the_dataset_by_whole_groups(samples, share, stratify):
    share_text = f"{share:.4f}"
    test, train = (split(samples, f"{part} {share_text}", stratify=stratify) for part in ("test", "train"))

    assert sorted(part_ids(test) + part_ids(train)) == sorted(part_ids(samples))
    assert not {member.group for member in test if member.group} & {member.group for member in train}


def test_folds_have_about_equal_sizes():
    samples = [sample(number) for number in range(103)]

    assert {len(fold(samples, f"{number}/5")) for number in range(1, 6)} <= {20, 21}
    assert len(split(samples, "test 0.2")) in (20, 21)


def test_a_stratified_fold_has_its_share_of_every_label():
    samples = [sample(number, labels=4) for number in range(200)]

    for number in range(1, 6):
        counts = Counter(member.metadata["label"] for member in fold(samples, f"{number}/5", stratify="label"))
        assert counts == dict.fromkeys("abcd", 10)


def test_single_sample_strata_spread_over_the_folds():
    samples = [Sample(id=f"s{number}", input=0, metadata={"label": number}) for number in range(200)]

    assert all(20 <= len(fold(samples, f"{number}/5", stratify="label")) <= 60 for number in range(1, 6))


@given(st.integers(20, 120), st.sampled_from([2, 5, 10]))
def test_a_further_row_moves_few_samples_between_folds(size, of):
    samples = [sample(number) for number in range(size + 1)]
    before, after = (
        {sample_id: number for number in range(1, of + 1) for sample_id in part_ids(fold(some, f"{number}/{of}"))}
        for some in (samples[:-1], samples)
    )

    assert sum(after[sample_id] != number for sample_id, number in before.items()) <= of


def test_folds_and_subsets_depend_on_the_seed_and_not_on_the_order_of_rows():
    samples, grouped = ([sample(number, groups=groups) for number in range(50)] for groups in (None, 12))

    assert ids(fold(grouped[::-1], "1/3")) == ids(fold(grouped, "1/3"))
    assert ids(fold(samples, "1/3 seed 1")) != ids(fold(samples, "1/3"))
    assert ids(subset(samples, 10, seed=0)) != ids(subset(samples, 10, seed=1))
    assert subset(samples, None, seed=1) == samples


# -- stratified subsets -------------------------------------------------------------------------------------------


@given(datasets, st.integers(1, 30), st.integers(1, 60), st.integers(0, 3))
def test_stratified_subsets_have_their_size_and_are_nested(samples, size, other_size, seed):
    small, large = (subset(samples, limit, seed=seed, stratify="label") for limit in sorted((size, other_size)))

    assert len(large) == min(max(size, other_size), len(samples))
    assert [member for member in samples if member in large] == list(large)
    assert ids(small) <= ids(large)


def test_a_stratified_subset_has_the_shares_of_the_whole():
    samples = [Sample(id=f"s{n}", input=n, expected="yes" if n % 10 else "no") for n in range(1000)]
    drawn = subset(samples, 100, seed=0, stratify="expected")

    assert Counter(member.expected for member in drawn) == {"yes": 90, "no": 10}


# -- together -----------------------------------------------------------------------------------------------------


def test_split_fold_and_limit_are_applied_in_order():
    samples = [sample(number) for number in range(100)]
    train = split(samples, "train 0.2")
    chosen = select(samples, Selection(of=100, seed=0, split="train 0.2", fold="1/2", limit=5))

    assert len(chosen) == 5
    assert set(part_ids(chosen)) <= set(part_ids(fold(train, "1/2")))


@pytest.mark.parametrize(
    ("selection", "complaint"),
    [
        ({"fold": "6/5"}, "fold='6/5' is not valid: write '2/5' for the second of five folds"),
        ({"fold": "0/5"}, "fold='0/5' is not valid: write '2/5' for the second of five folds"),
        ({"fold": 2}, "fold=2 is not valid: write '2/5' for the second of five folds"),
        (
            {"split": "dev 0.2"},
            "split='dev 0.2' is not valid: write 'test 0.2' for a fifth, and 'train 0.2' for the rest",
        ),
        ({"split": "test 0.0"}, "split='test 0.0' is not valid: write 'test 0.2' for a fifth, and"),
        ({"limit": 2, "stratify": "lable"}, "sample 's0' has no field 'lable' to stratify by: did you mean 'label'?"),
        (
            {"limit": 2, "stratify": "xyz"},
            "sample 's0' has no field 'xyz' to stratify by: it has 'label', 'expected', 'gr",
        ),
        ({"fold": "1/999"}, "fold='1/999' selects none of 10 samples: select larger parts"),
    ],
)
def test_an_invalid_selection_is_an_error(selection, complaint):
    samples = [sample(number) for number in range(10)]

    with pytest.raises(DatasetError) as caught:
        select(samples, Selection(of=10, seed=0, **selection))
    assert str(caught.value).startswith(complaint)
