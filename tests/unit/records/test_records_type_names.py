"""The names of types in error messages."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pytest_crucible.records import Reply
from pytest_crucible.records.errors import describe_json_type, describe_type


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
