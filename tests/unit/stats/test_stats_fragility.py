from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.fragility import fewest_answers, smallest_set, splits


@given(most=st.integers(0, 400), turn=st.integers(1, 450), guess=st.integers(-5, 500))
def test_the_fewest_answers_are_those_at_which_a_decision_turns_wherever_the_search_starts(most, turn, guess):
    fewest = fewest_answers(lambda answers: answers >= turn, most, guess=guess)

    assert fewest == (turn if turn <= most else None)


@given(most=st.integers(200, 10**6), turn=st.integers(1, 10**6))
def test_a_good_guess_needs_few_decisions(most, turn):
    tried = []

    def changes(answers):
        tried.append(answers)
        return answers >= turn

    fewest_answers(changes, most, guess=turn + 1)

    assert len(tried) <= 6


@given(number=st.integers(1, 30), rooms=st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_splits_are_the_most_unequal_ways_to_take_answers_of_two_kinds(number, rooms):
    ways = [(ours, number - ours) for ours in range(number + 1) if ours <= rooms[0] and number - ours <= rooms[1]]

    assert set(splits(number, rooms)) == ({ways[0], ways[-1]} if ways else set())


@given(
    kinds=st.text("abc", max_size=7),
    weights=st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)),
    goal=st.integers(1, 20),
)
def test_the_smallest_set_is_that_of_all_sets(kinds, weights, goal):
    def changes(chosen):
        return sum(weights.get(kinds[place], 0) for place in chosen) >= goal

    sizes = [size for size in range(1, len(kinds) + 1) if any(map(changes, combinations(range(len(kinds)), size)))]
    chosen, is_exact = smallest_set(kinds, changes, below=len(kinds) + 1, most_sets=10_000)

    assert is_exact
    assert (None if chosen is None else len(chosen)) == (sizes[0] if sizes else None)


def test_a_search_that_ends_early_says_so():
    assert smallest_set("abcdef", lambda chosen: len(chosen) == 4, below=7, most_sets=10) == (None, False)
