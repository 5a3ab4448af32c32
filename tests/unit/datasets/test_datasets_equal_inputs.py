"""Samples that ask one question: which they are, and the groups that they make."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.datasets import identify
from pytest_crucible.datasets.equal_inputs import count_equal_inputs, find_equal_questions, group_equal_inputs
from pytest_crucible.datasets.packed import PackedSamples
from pytest_crucible.records import Dataset, Sample
from pytest_crucible.records.plan import EqualInputs


def samples(*inputs: Any, **fields: Any) -> list[Sample]:
    lists = {name: values if isinstance(values, list) else [values] * len(inputs) for name, values in fields.items()}
    return [
        Sample(id=f"q{k}", input=value, **{name: values[k] for name, values in lists.items()})
        for k, value in enumerate(inputs)
    ]


def dataset(*inputs: Any, **fields: Any) -> Dataset:
    return identify("d", samples(*inputs, **fields))


def clusters(grouped: Dataset) -> list[str | None]:
    return [sample.cluster for sample in grouped.samples]


def test_equal_input_expected_value_and_metadata_are_one_question():
    assert find_equal_questions(samples("a", "b", "a", "a", "b")) == {2: 0, 3: 0, 4: 1}
    assert find_equal_questions(samples("a", "b", "a", expected=["x", "x", "y"])) == {}
    assert find_equal_questions(samples("a", "b", "a", metadata=[{"k": 1}, {"k": 1}, {"k": 2}])) == {}
    messages = [{"role": "user", "content": "a"}]
    assert find_equal_questions(samples(messages, "a", [dict(reversed(messages[0].items()))])) == {2: 0}


@pytest.mark.parametrize("empty", ["", "  ", None, [], {}, [{"role": "user", "content": ""}]])
def test_an_empty_input_is_no_question(empty):
    assert find_equal_questions(samples(empty, "a", empty, empty)) == {}


def test_one_input_of_all_samples_does_not_tell_them_apart():
    assert find_equal_questions(samples(*["Fix the bug."] * 50)) == {}
    assert find_equal_questions(samples("Fix the bug.", "Fix the bug.", "Write a test.")) == {1: 0}


class Picture:
    """A value without a plain form, and with one repr for all."""

    def __repr__(self) -> str:
        return "Picture"


def test_values_without_a_plain_form_equal_nothing():
    picture = Picture()

    assert find_equal_questions(samples("a", [picture], [picture], {1: 2, "b": 3}, {1: 2, "b": 3})) == {}


def test_a_dataset_without_equal_inputs_stays_the_same_object():
    different, grouped = dataset("a", "b", "c"), dataset("a", "a", "b", group=["one", "one", "two"])

    assert group_equal_inputs(different) is different
    # The declared groups hold the equal inputs together already.
    assert group_equal_inputs(grouped) is grouped
    assert count_equal_inputs(different.samples) is None


def test_each_question_is_a_group():
    rows = dataset("a", "b", "a", "c")

    grouped = group_equal_inputs(rows)

    assert clusters(grouped) == ["sample q0 +1", "sample q1", "sample q0 +1", "sample q3"]
    assert [sample.group for sample in grouped.samples] == [None] * 4
    assert grouped.sha256 != rows.sha256
    assert count_equal_inputs(grouped.samples) == EqualInputs(samples=2, questions=1)


def test_declared_groups_that_share_a_question_are_joined():
    grouped = group_equal_inputs(dataset("a", "x", "a", "b", "b", "y", group=["1", "1", "2", "2", "3", "4"]))

    assert clusters(grouped) == ["1 +2"] * 5 + ["4"]
    assert [sample.group for sample in grouped.samples] == ["1", "1", "2", "2", "3", "4"]
    assert count_equal_inputs(grouped.samples) == EqualInputs(samples=4, questions=2, declared=4)


def test_a_part_of_the_samples_counts_its_own_questions():
    grouped = group_equal_inputs(dataset("a", "b", "a", "c", "c")).samples

    assert count_equal_inputs(grouped[:3]) == EqualInputs(samples=2, questions=1)
    assert count_equal_inputs(grouped[1:3]) is None
    assert count_equal_inputs([]) is None


def test_inputs_are_compared_within_parts():
    rows = dataset("a", "b", "a", "a", "b", "a")
    arms = {f"q{k}": "v2" if k < 3 else "v1" for k in range(6)}

    grouped = group_equal_inputs(rows, arms)

    assert clusters(grouped) == [
        "sample q0 +1",
        "sample q1",
        "sample q0 +1",
        "sample q3 +1",
        "sample q4",
        "sample q3 +1",
    ]
    assert count_equal_inputs(grouped.samples, arms) == EqualInputs(samples=4, questions=2)
    one_each = dataset(*["Stack the blocks."] * 6)
    assert group_equal_inputs(one_each, arms) is one_each


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("1234567")), min_size=1, max_size=14))
def test_two_samples_are_in_one_group_where_a_chain_of_equal_inputs_and_groups_joins_them(pairs):
    grouped = clusters(group_equal_inputs(dataset(*(text for text, _ in pairs), group=[group for _, group in pairs])))

    joined = [{k} for k in range(len(pairs))]
    one_question = len({text for text, _ in pairs}) == 1
    for k, first in enumerate(pairs):
        for j, second in enumerate(pairs):
            if (first[0] == second[0] and not one_question) or first[1] == second[1]:
                union = next(part for part in joined if k in part) | next(part for part in joined if j in part)
                joined = [part for part in joined if not part & union] + [union]
    for part in joined:
        assert len({grouped[k] for k in part}) == 1
    assert len(set(grouped)) == len(joined)


def test_packed_samples_keep_their_group():
    rows = samples("a", "b", "a")

    [first, *_] = packed = PackedSamples(group_equal_inputs(identify("d", rows)).samples)

    assert (first.group, first.cluster, first.variants) == (None, "sample q0 +1", {})
    assert find_equal_questions(packed) == {2: 0}
