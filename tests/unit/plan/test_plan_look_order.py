"""The order of a run with looks depends on nothing but the samples' ids and groups."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.plan.arms import complete_length, look_order

names = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=30)


@given(names, st.randoms())
def test_the_order_of_the_dataset_does_not_matter(ids, random):
    shuffled = random.sample(ids, len(ids))

    assert [ids[k] for k in look_order(ids, [None] * len(ids))] == [
        shuffled[k] for k in look_order(shuffled, [None] * len(ids))
    ]


@given(names, st.data())
def test_the_samples_of_a_group_are_neighbours(ids, data):
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(ids), max_size=len(ids)))
    ordered = [groups[k] for k in look_order(ids, groups)]

    changes = sum(entry != other for entry, other in itertools.pairwise(ordered))
    assert changes == max(len(set(groups)) - 1, 0)


@given(st.sets(st.integers(0, 9)), st.booleans())
def test_only_whole_groups_count(done, grouped):
    groups = ["aaabbbccdd"[k] for k in range(10)] if grouped else [None] * 10
    end = complete_length(range(10), groups, done.__contains__)

    assert set(range(end)) <= done
    if grouped:
        assert end in (0, 3, 6, 8, 10)
    else:
        assert end == 10 or end not in done


def test_counting_goes_on_where_it_ended():
    orders = []

    def is_complete(position):
        orders.append(position)
        return position < 5

    assert complete_length(range(9), [None] * 9, is_complete, start=4) == 5
    assert orders == [4, 5]
