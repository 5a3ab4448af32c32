"""The shard of a sample: one for each cluster, and the same one when a dataset grows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.datasets import identify
from pytest_crucible.datasets.equal_inputs import group_equal_inputs
from pytest_crucible.features.scale.shard import Shard, option_conflicts, parse_shard, shard_numbers
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError

NAMES = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=40, unique=True)
DIVISIONS = st.integers(1, 9)


def make_samples(names, groups=()):
    samples = [Sample(id=name, input=f"what is {name!r}?") for name in names]
    return [replace(sample, group=group) for sample, group in zip(samples, groups, strict=True)] if groups else samples


@given(NAMES, DIVISIONS)
def test_each_sample_is_in_one_shard(names, of):
    samples = make_samples(names)

    positions = [position for number in range(1, of + 1) for position in Shard(of, number).positions(samples)]

    assert sorted(positions) == list(range(len(samples)))


@given(NAMES, DIVISIONS, st.data())
def test_no_sample_moves_when_the_dataset_grows_or_is_ordered_otherwise(names, of, data):
    before = dict(zip(names, shard_numbers(make_samples(names), of), strict=True))
    more = data.draw(st.permutations([*names, *(f"new {k}" for k in range(7))]))

    after = dict(zip(more, shard_numbers(make_samples(more), of), strict=True))

    assert {name: after[name] for name in names} == before


@given(NAMES, DIVISIONS, st.data())
def test_a_group_is_in_one_shard(names, of, data):
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(names), max_size=len(names)))

    numbers = shard_numbers(make_samples(names, groups), of)

    assert len(set(zip(groups, numbers, strict=True))) == len(set(groups))


@given(NAMES, DIVISIONS)
def test_a_group_stays_in_its_shard_when_another_sample_of_it_comes_first(names, of):
    before, after = (make_samples(each, ["g"] * len(each)) for each in (names, ["new", *names]))

    assert next(shard_numbers(before, of)) == next(shard_numbers(after, of))


@given(NAMES, DIVISIONS)
def test_equal_inputs_are_in_one_shard_and_move_no_other_sample(names, of):
    samples = make_samples(names)
    before = list(shard_numbers(samples, of))
    twice = [*samples, replace(samples[0], id="a second id of it")]
    # One input of all samples makes no group.
    dataset = group_equal_inputs(identify("names", twice))

    after = list(shard_numbers(dataset.samples, of))

    assert after[:-1] == before
    assert after[-1] == before[0] or len(names) == 1


def test_shards_are_of_like_size():
    counts = [len(Shard(8, number).positions(make_samples(map(str, range(8000))))) for number in range(1, 9)]

    # Six standard deviations of a binomial.
    assert all(abs(count - 1000) < 6 * (8000 / 8 * 7 / 8) ** 0.5 for count in counts)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("9/8", "--crucible-shard=9/8: expected 1/8 to 8/8"),
        ("0/8", "--crucible-shard=0/8: expected 1/8 to 8/8"),
        *(
            (text, f"--crucible-shard={text}: expected a part such as 3/8")
            for text in ("a/b", "3", "1/0", "-1/8", "9" * 5000, "1/²")
        ),
        ("1/100000", "--crucible-shard=1/100000: expected at most 99999 parts"),
        ("1/" + "9" * 5000, f"--crucible-shard=1/{'9' * 38}: expected at most 99999 parts"),
    ],
)
def test_a_part_that_cannot_be_is_refused(text, sentence):
    with pytest.raises(SpecError) as refused:
        parse_shard(text)

    assert str(refused.value) == sentence


def test_a_session_without_a_shard_has_no_conflicts():
    assert list(option_conflicts({"shard": None, "stop": True})) == []


def test_options_of_features_that_are_left_out_are_no_conflicts():
    assert not any(wrong for wrong, _ in option_conflicts({"shard": "1/2"}))
