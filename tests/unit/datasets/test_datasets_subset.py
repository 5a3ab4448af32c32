"""Laws of a seeded subset."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from strategies import datasets

from pytest_crucible import Sample
from pytest_crucible.datasets import subset

seeds = st.integers(0, 2**32)
sizes = st.integers(1, 40)


def ids(samples: Iterable[Sample]) -> set[str]:
    return {sample.id for sample in samples}


@given(datasets(), sizes, seeds)
def test_it_has_as_many_samples_as_were_asked_for_in_the_order_of_the_dataset(samples, limit, seed):
    drawn = subset(samples, limit, seed=seed)

    assert len(drawn) == min(limit, len(samples))
    assert drawn == [sample for sample in samples if sample in drawn]


@given(datasets(), sizes, sizes, seeds)
def test_a_smaller_one_lies_within_a_larger_one(samples, one, other, seed):
    smaller, larger = sorted((one, other))

    assert ids(subset(samples, smaller, seed=seed)) <= ids(subset(samples, larger, seed=seed))


@given(datasets(), sizes, seeds, st.randoms())
def test_it_does_not_depend_on_the_order_of_the_dataset(samples, limit, seed, random):
    shuffled = random.sample(samples, len(samples))

    assert ids(subset(shuffled, limit, seed=seed)) == ids(subset(samples, limit, seed=seed))


@given(datasets(), datasets(), sizes, seeds)
def test_samples_that_stay_keep_their_places_when_the_dataset_grows(samples, more, limit, seed):
    grown = samples + [sample for sample in more if sample.id not in ids(samples)]

    assert ids(subset(grown, limit, seed=seed)) & ids(samples) <= ids(subset(samples, limit, seed=seed))


def test_another_seed_draws_other_samples():
    samples = [Sample(id=str(k), input=k) for k in range(100)]

    assert ids(subset(samples, 10, seed=0)) != ids(subset(samples, 10, seed=1))


@given(datasets(), seeds)
def test_without_a_limit_it_is_the_whole_dataset(samples, seed):
    assert subset(samples, None, seed=seed) == samples
