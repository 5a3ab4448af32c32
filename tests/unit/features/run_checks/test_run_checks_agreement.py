"""Replies agree if the models have given them, whatever the test returns, and free text is what no source has."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from arm_columns import arm_columns, check_inputs

from pytest_crucible.features.run_checks.agreement import (
    compare_replies,
    count_free_words,
    equal_texts_by_chance,
    first_replies,
    own_agreement,
)
from pytest_crucible.features.run_checks.finding import ArmColumns
from pytest_crucible.records import Draws
from pytest_crucible.records.calls import ReplyColumns

WORDS = [f"word{number}" for number in range(3_000)]


def returning(columns: ArmColumns, value: str) -> ArmColumns:
    """Return an arm whose test returns one value, whatever was received; an empty one: nothing, as a joined test."""
    texts = [value] * len(columns.calls.texts)
    return replace(columns, replies=replace(columns.replies, texts=texts) if value else ReplyColumns())


@pytest.mark.parametrize("value", ["True", ""])
def test_what_was_received_is_compared_not_what_the_test_returns(value):
    ours, theirs = (returning(arm_columns(name, texts), value) for name, texts in (("v2", "abc"), ("v1", "abd")))
    agreement = compare_replies(first_replies(ours), first_replies(theirs))
    assert (agreement.samples, list(agreement.positions), agreement.texts) == (3, [0, 1], ["a", "b"])


def test_what_the_test_returns_is_compared_where_a_model_was_not_called():
    blocked = arm_columns("v2", ["No."] * 2)
    blocked = replace(blocked, calls=replace(blocked.calls, positions=[0], repeats=[0], members=[""], texts=["yes"]))
    agreement = compare_replies(first_replies(blocked), first_replies(arm_columns("v1", ["yes", "No."])))
    assert (agreement.samples, list(agreement.positions), agreement.texts) == (2, [0, 1], ["yes", "No."])


def test_all_replies_of_a_conversation_have_to_be_equal():
    ours, theirs = (arm_columns(name, texts) for name, texts in (("v2", ["draft", "yes"]), ("v1", ["other", "yes"])))
    one_sample = {"positions": [0, 0], "repeats": [0, 0]}
    arms = [replace(each, calls=replace(each.calls, **one_sample)) for each in (ours, theirs)]
    assert compare_replies(*map(first_replies, arms)).unequal == 1


def test_the_last_reply_of_a_conversation_stands_for_all_of_them():
    arm = arm_columns("v2", ["draft", "yes"])
    arm = replace(arm, calls=replace(arm.calls, positions=[0, 0], repeats=[0, 0]))
    assert compare_replies(first_replies(arm), first_replies(arm)).texts[0] == "yes"


def test_equal_replies_are_in_the_order_of_the_samples():
    blocked = arm_columns("v2", ["No."] * 2)
    blocked = replace(blocked, calls=replace(blocked.calls, positions=[1], repeats=[0], members=[""], texts=["yes"]))
    agreement = compare_replies(first_replies(blocked), first_replies(arm_columns("v1", ["No.", "yes"])))
    assert (list(agreement.positions), agreement.texts) == ([0, 1], ["No.", "yes"])


def test_where_models_replied_nothing_the_values_of_the_tests_are_compared():
    ours, theirs = (returning(arm_columns(name, ["", ""]), value) for name, value in (("v2", "a"), ("v1", "b")))
    agreement = compare_replies(first_replies(ours), first_replies(theirs))
    assert (agreement.samples, agreement.equal) == (2, 0)


@pytest.mark.parametrize(
    ("draws", "samples"),
    [(Draws(repeats=2), 3), (Draws(rounds=2), 3), (Draws(prompts=2), 0), (Draws(trainings=2), 0)],
)
def test_an_arm_agrees_with_itself_in_two_replies_of_one_model_to_one_prompt(draws, samples):
    assert own_agreement(arm_columns("v2", "aabbcd", repeats=2), draws).samples == samples


def test_words_of_the_input_and_of_a_template_are_not_free():
    replies = [f"the verdict on claim {number} is that it holds" for number in range(10)]
    assert count_free_words(replies, ["claim"] * 10) == [0] * 10
    assert count_free_words(["one two three four five six seven eight nine"], ["nine"]) == [8]


@pytest.mark.parametrize(
    "source",
    [
        lambda texts: {"documents": texts},
        lambda texts: {
            "inputs": [[{"role": "user", "content": text}, {"role": "user", "content": "?"}] for text in texts]
        },
    ],
    ids=["in the prompt of the test", "in an earlier message"],
)
def test_quotes_of_what_was_sent_are_not_free(source):
    drawn = random.Random(4)
    texts = [" ".join(drawn.choices(WORDS, k=40)) for _ in range(200)]
    arms = [arm_columns(name, texts) for name in ("v2", "v1")]
    agreement = compare_replies(*map(first_replies, arms))
    assert equal_texts_by_chance(check_inputs(*arms, **source(texts)), arms[0], agreement) == 1.0
    assert equal_texts_by_chance(check_inputs(*arms), arms[0], agreement) < 1e-6
