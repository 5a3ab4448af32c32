"""Replies are normalised to their answers: numbers, texts, choices and JSON."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_tables import read_table

from pytest_crucible.metrics import choice_of
from pytest_crucible.metrics.normalisers import NORMALISERS, choice, json_value, number, plain_number, text

LONG_NUMBER = "12345678901234567890123456789012345"


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        (["4", "4.0", "4.00", "$4", "The answer is 4.", "1 + 3 = 4", "4e0"], "4"),
        (["-1,250.50"], "-1250.5"),
        ([".5"], "0.5"),
        (["-0.0"], "0"),
        (["1e30"], "1" + 30 * "0"),
        (["1e500"], "1E+500"),
        ([LONG_NUMBER], LONG_NUMBER),
        (["I do not know", ""], None),
    ],
)
def test_equal_numbers_normalise_alike(replies, answer):
    assert {number(reply) for reply in replies} == {answer}


@pytest.mark.parametrize(
    ("reply", "answer"), [(" Paris\n", "paris"), ("PARIS", "paris"), ("Paris.", "paris."), (" \n", None)]
)
def test_text_is_normalised_as_for_exact_match(reply, answer):
    assert text(reply) == answer


def test_normaliser_and_metric_read_the_same_choice():
    replies = [row["text"] for row in read_table("replies/choices")]

    assert [choice(reply) for reply in replies] == [choice_of(reply, "ABCDE") for reply in replies]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('{"b": 1.0, "a": [true, null]}', '{"a":[true,null],"b":1}'),
        ('Here:\n```json\n{"a": 1e0}\n```\nDone.', '{"a":1}'),
        ("```\n[1]\n```\nor rather\n```\n[2]\n```", "[2]"),
        ('"x"', '"x"'),
        ('{"a": NaN}', None),
        ("{'a': 1}", None),
        ("Sure!", None),
        ("[" * 100_000, None),
    ],
)
def test_json_is_normalised_by_value(reply, answer):
    assert json_value(reply) == answer


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON, indent=st.sampled_from([None, 2]))
def test_json_normalisation_is_idempotent_and_ignores_layout(value, indent):
    once = json_value(json.dumps(value, indent=indent))

    assert once is not None
    assert json_value(once) == once == json_value(f"```json\n{json.dumps(value)}\n```")


@given(
    first=st.decimals(allow_nan=False, allow_infinity=False), second=st.decimals(allow_nan=False, allow_infinity=False)
)
def test_plain_numbers_are_equal_exactly_for_equal_decimals(first, second):
    assert (plain_number(first) == plain_number(second)) == (first == second)
    assert Decimal(plain_number(first)) == first


@given(reply=st.text(max_size=60), name=st.sampled_from(sorted(NORMALISERS)))
def test_any_text_gives_an_answer_or_none(reply, name):
    answer = NORMALISERS[name](reply)

    assert answer is None or (isinstance(answer, str) and answer)
