"""Errors say what is to be done, in whichever process they are met."""

from __future__ import annotations

import pickle

import pytest

from pytest_crucible.records.errors import BackendError, Refused, Retryable, Spent


@pytest.mark.parametrize("kind", [BackendError, Refused, Spent])
def test_a_pickled_error_is_the_same_error(kind):
    back = pickle.loads(pickle.dumps(kind("no such model", kind="404")))

    assert type(back) is kind
    assert (str(back), back.kind) == ("no such model", "404")


def test_an_error_of_a_users_own_needs_no_kind():
    class Broken(BackendError):
        def __init__(self, code: int) -> None:
            self.code = code

    assert Broken(7).kind == ""


def test_a_pickled_retryable_error_keeps_its_class_and_its_wait():
    back = pickle.loads(pickle.dumps(Retryable("too many requests", kind="429", retry_after_s=1.5)))

    assert (str(back), back.kind, back.retry_after_s) == ("too many requests", "429", 1.5)
