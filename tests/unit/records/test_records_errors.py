"""Error messages: hints for unknown names, names of types, and errors that cross processes."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from pytest_crucible.records import Reply
from pytest_crucible.records.errors import (
    BackendError,
    Refused,
    Retryable,
    Spent,
    closest_name,
    describe_json_type,
    describe_type,
    suggest,
)


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


NAMES = ["exact_match", "latency_s", "cost_usd"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("exact_mtach", "did you mean 'exact_match'?"),
        ("latency", "did you mean 'latency_s'?"),
        ("cost", "did you mean 'cost_usd'?"),  # a similarity of 0.67
        ("match", "did you mean 'exact_match'?"),
        ("tokens", "there are three"),
        ("usd", "there are three"),  # 0.55
        ("", "there are three"),
    ],
)
def test_a_name_is_suggested_where_it_is_near_and_only_there(name, hint):
    assert suggest(name, NAMES, otherwise="there are three") == hint


def test_the_nearest_of_several_is_suggested():
    assert suggest("v11", ["v2", "v12", "v1"]) == "did you mean 'v1'?"


def test_what_is_always_said_comes_last_and_alone_where_nothing_is_near():
    assert suggest("latency", NAMES, always="there are three") == "did you mean 'latency_s'? there are three"
    assert suggest("tokens", NAMES, always="there are three") == "there are three"
    assert suggest("tokens", NAMES) == ""


def test_another_similarity_may_be_asked_for():
    assert closest_name("usd", NAMES, cutoff=0.5) == "cost_usd"
    assert closest_name("cost", NAMES, cutoff=0.9) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"),
        (True, "a boolean"),
        (7, "a number"),
        (0.5, "a number"),
        ("", "an empty string"),
        ("yes", "a string"),
        (b"", "bytes"),
        ([], "an empty list"),
        ([1], "a list"),
        ((), "an empty tuple"),
        ({}, "an empty dict"),
        (object(), "an object"),
        (int, "a class"),
        (len, "a function"),
        (lambda: None, "a function"),
        (np.zeros(2), "an ndarray"),
        (Reply(text=""), "a Reply"),
    ],
)
def test_a_type_is_named_with_its_article(value: object, words: str):
    assert describe_type(value) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("null", "null"),
        ("true", "a boolean"),
        ("7", "a number"),
        ('"yes"', "a string"),
        ("[]", "an array"),
        ("{}", "an object"),
    ],
)
def test_a_json_type_is_named_as_json_names_it(text: str, words: str):
    assert describe_json_type(json.loads(text)) == words
