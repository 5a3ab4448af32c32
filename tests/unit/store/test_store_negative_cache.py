"""Keys that are surely absent, and those that may exist."""

from __future__ import annotations

from pytest_crucible.store.replies import MOST, AbsentKeys


def test_nothing_is_absent_before_it_has_learned():
    assert "a" not in AbsentKeys()


def test_what_was_there_and_what_was_added_may_be_there_and_the_rest_is_not():
    absent = AbsentKeys()
    absent.add("early")
    absent.learn(lambda most: ["a", "b"])
    absent.add("late")

    assert [key for key in ("a", "b", "early", "late", "c") if key in absent] == ["c"]


def test_it_learns_once():
    absent = AbsentKeys()
    absent.learn(lambda most: ["a"])
    absent.learn(lambda most: ["b"])

    assert "b" in absent


def test_of_more_keys_than_it_holds_it_knows_nothing():
    absent = AbsentKeys()
    absent.learn(lambda most: map(str, range(most)))

    assert "x" not in absent


def test_nor_when_more_are_added():
    absent = AbsentKeys()
    absent.learn(lambda most: ())
    for number in range(MOST):
        absent.add(str(number))
    assert "x" in absent

    absent.add("one more")
    assert "x" not in absent
    absent.learn(lambda most: ())
    assert "x" not in absent
