"""Conversations of several answers: which tokens count, and that each answer is learnt after the prompt it would follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.encoding import Answer, join_answers
from pytest_crucible.features.training.trainer import EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.records.errors import DatasetError

CONVERSATION = [
    {"role": "system", "content": "Water is wet."},
    {"role": "user", "content": "what is wet?"},
    {"role": "assistant", "content": "water"},
    {"role": "user", "content": "is it?"},
    {"role": "assistant", "content": "yes"},
]


@pytest.fixture(scope="module")
def trainer(tmp_path_factory) -> EmbeddedTrainer:
    """Return a trainer of the packaged model: these conversations need its context."""
    return EmbeddedTrainer(open_engine(None), LoraSpec(rank=1), folder=tmp_path_factory.mktemp("recipe"))


def counted_text(trainer, datum) -> str:
    return trainer.tokenizer.decode(datum.inputs["target_tokens"][datum.inputs["weights"] > 0])


def test_all_answers_count_with_their_ends(trainer):
    (row,) = trainer.datums([{"messages": CONVERSATION}], train_on="all_assistant")
    (last,) = trainer.datums([{"messages": CONVERSATION}])

    assert list(row.tokens) == list(last.tokens)
    assert counted_text(trainer, row) == " water yes"
    assert counted_text(trainer, last) == " yes"
    # Both answers end; the prompt of the second goes on without an end.
    assert (row.inputs["target_tokens"] == trainer.tokenizer.eos).sum() == 2
    assert trainer.tokenizer.eos not in row.tokens


def test_the_loss_is_that_of_each_answer_after_its_own_prompt(trainer):
    (together,) = trainer.datums([{"messages": CONVERSATION}], train_on="all_assistant")
    apart = trainer.datums([{"messages": CONVERSATION[:3]}, {"messages": CONVERSATION}])
    losses = [trainer.forward_backward([row], "cross_entropy", forward_only=True).loss for row in (together, *apart)]

    assert losses[0] == pytest.approx(losses[1] + losses[2], rel=1e-5)


def test_an_answer_after_a_prompt_that_later_ones_change_is_a_row_of_its_own(trainer):
    """A first message alone is a prompt as it stands, and a question in a conversation."""
    rows = trainer.datums([{"messages": CONVERSATION[1:]}], train_on="all_assistant")

    assert [counted_text(trainer, row) for row in rows] == ["water", " yes"]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1), st.lists(st.integers(0, 3), min_size=1)), min_size=1)
)
def test_every_answer_is_learnt_once_after_its_prompt(pairs):
    answers = [Answer(prompt, completion, weight=number + 1) for number, (prompt, completion) in enumerate(pairs)]
    rows = join_answers(answers)

    learnt = 0
    for answer in answers:
        size = len(answer.completion)
        start = len(answer.prompt) - 1
        beginning = (answer.prompt + answer.completion)[:-1]
        places = [
            row for row in rows
            if list(row.tokens[: len(beginning)]) == beginning
            and list(row.inputs["target_tokens"][start : start + size]) == answer.completion
            and (row.inputs["weights"][start : start + size] == answer.weight).all()
        ]  # fmt: skip
        learnt += size
        assert places
    assert sum(int((row.inputs["weights"] > 0).sum()) for row in rows) == learnt


@pytest.mark.parametrize("train_on", ["last_assistant", "all_assistant"])
def test_a_message_has_a_weight(trainer, train_on):
    messages = [*CONVERSATION[:2], {**CONVERSATION[2], "weight": 0}, CONVERSATION[3], {**CONVERSATION[4], "weight": 2}]
    (row,) = trainer.datums([{"messages": messages, "weight": 3.0}], train_on=train_on)

    assert counted_text(trainer, row) == " yes"
    assert set(row.inputs["weights"].tolist()) == {0.0, 6.0}


def test_weights_are_one_a_row(trainer):
    rows = [{"prompt": "1?", "completion": "five", "weight": 2.0}, {"prompt": "2?", "completion": "six"}]
    data = trainer.datums(iter(rows), weights=np.array([0.5, 3.0]))

    assert [row.inputs["weights"].max() for row in data] == [1.0, 3.0]
    with pytest.raises(DatasetError, match="1 weights for 2 rows to train on: give one a row"):
        trainer.datums(rows, weights=[1.0])
    with pytest.raises(DatasetError, match=r"row 2 to train on has weight = -1.0: write a number of at least 0"):
        trainer.datums(rows, weights=[1.0, -1.0])


def test_messages_in_prompt_and_completion_are_a_conversation(trainer):
    split = {"prompt": CONVERSATION[:-1], "completion": CONVERSATION[-1:]}
    (item,), (other,) = (trainer.datums([row], train_on="all_assistant") for row in (split, {"messages": CONVERSATION}))

    assert list(item.tokens) == list(other.tokens)
    assert item.inputs["weights"].tolist() == other.inputs["weights"].tolist()


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        (CONVERSATION[:2], "no message of the assistant follows another message"),
        (CONVERSATION[2:3], "no message of the assistant follows another message"),
        ("hello", "a conversation to learn from needs at least two messages"),
        ([*CONVERSATION[:2], {"role": "assistant"}], "a message has no text"),
        ([*CONVERSATION[:4], {**CONVERSATION[4], "weight": "1"}], "a message has weight = '1': write a number"),
    ],
)
def test_conversations_without_an_answer(trainer, messages, sentence):
    with pytest.raises(DatasetError, match=f"row 1 to train on.*{sentence}"):
        trainer.datums([{"messages": messages}], train_on="all_assistant")


def test_another_choice_of_answers_is_refused(trainer):
    with pytest.raises(ValueError, match="train_on = 'everything': write 'last_assistant' or 'all_assistant'"):
        trainer.datums([{"messages": CONVERSATION}], train_on="everything")
