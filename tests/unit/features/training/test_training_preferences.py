"""Preferences: what a row may look like, the loss against PyTorch's numbers, and every way to use them wrongly."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tiny_base import CONTEXT

from pytest_crucible.features.training.log import TrainingStopped
from pytest_crucible.features.training.losses import Preference, dpo_loss
from pytest_crucible.features.training.trainer import EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.records.errors import DatasetError

ROW = {"prompt": "sum?", "chosen": "five", "rejected": "six"}
USER = {"role": "user", "content": "sum?"}
YES, NO = {"role": "assistant", "content": "five"}, {"role": "assistant", "content": "six"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [USER], "chosen": [YES], "rejected": [NO]},
        {"input": {"messages": [USER]}, "preferred_output": [YES], "non_preferred_output": [NO]},
        {
            "comparison": {"prompt_conversation": [USER], "completion_A": [NO], "completion_B": [YES]},
            "label": "B",
        },
        {"messages": [USER], "chosen": YES, "rejected": NO},
    ],
    ids=["trl", "openai", "tinker", "axolotl"],
)
def test_every_format_is_the_same_pair(trainer, row):
    [expected], [pair] = trainer.preferences([ROW]), trainer.preferences([row])

    assert pair.chosen.tokens == expected.chosen.tokens
    assert pair.rejected.tokens == expected.rejected.tokens
    assert pair.reference == pytest.approx(expected.reference)


def test_datums_reads_supervised_rows_of_every_format(trainer):
    rows = [
        {"prompt": "sum?", "completion": "five"},
        {"prompt": [USER], "completion": [YES]},
        {"messages": [USER, YES]},
    ]
    first, *others = trainer.datums(rows)

    assert [other.tokens for other in others] == [first.tokens] * 2


def test_a_step_makes_the_chosen_reply_more_probable_than_the_reference_does(trainer):
    pairs = trainer.preferences([ROW, {**ROW, "prompt": "one?"}])
    losses = [trainer.step(pairs, loss="dpo", config={"beta": 0.5}, learning_rate=0.002) for _ in range(5)]
    output = trainer.forward_backward(pairs, "dpo", {"beta": 0.5}, forward_only=True)

    assert losses[0] == pytest.approx(math.log(2), abs=1e-4)
    assert losses == sorted(losses, reverse=True)
    assert output.metrics["margin:mean"] > 0
    assert output.metrics["accuracy:mean"] == 1.0
    assert output.gradients == {}
    assert len(trainer.log.losses) == 5
    assert (trainer.log.settings["loss"], trainer.log.settings["rows"]) == ({"dpo"}, {2})


def test_the_derivative_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    logprobs = rng.normal(-5, 2, 6)
    pairs = [Preference(Datum([1]), Datum([1]), reference=value) for value in rng.normal(size=3)]
    result = dpo_loss(logprobs, pairs, 0.3)
    for pair in range(3):
        for side, sign in ((0, 1), (1, -1)):
            moved = np.zeros(6)
            moved[2 * pair + side] = 1e-6
            change = dpo_loss(logprobs + moved, pairs, 0.3).loss - dpo_loss(logprobs - moved, pairs, 0.3).loss
            assert change / 2e-6 == pytest.approx(sign * result.slopes[pair], abs=1e-8)


def test_margins_of_any_size_are_finite():
    pairs = [Preference(Datum([1]), Datum([1]))] * 2
    result = dpo_loss(np.array([0.0, -1e6, -1e6, 0.0]), pairs, 1.0)

    assert (result.loss, result.slopes.tolist()) == (1e6, [-0.0, -1.0])


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [{"prompt": "a", "completion": "b"}],
            "row 1 to train on has no two replies to compare: write 'prompt', 'chosen'",
        ),
        ([{"prompt": "a", "chosen": "b", "rejected": 3}], "row 1 to train on has no text to train on"),
        ([ROW, {**ROW, "rejected": "long " * CONTEXT}], "row 2 to train on has "),
        ([], "the preferences to train on are empty"),
        ("gone.jsonl", "training data '"),
    ],
)
def test_rows_that_are_no_preferences(trainer, rows, sentence):
    with pytest.raises(DatasetError) as caught:
        trainer.preferences(rows)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"prompt": "a", "completion": "b", "label": False},
            "is a kto row with a label, and datums trains on every completion",
        ),
        (ROW, "is a preference: read it with trainer.preferences"),
    ],
)
def test_datums_learns_no_reply_that_failed(trainer, row, sentence):
    with pytest.raises(DatasetError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        trainer.datums([row])


def test_preferences_and_losses_have_to_fit(trainer):
    pairs, data = trainer.preferences([ROW]), trainer.datums([{"prompt": "a", "completion": "b"}])
    for batch, loss, config, sentence in (
        (pairs, "cross_entropy", {}, "takes rows of trainer.datums, and these are preferences: use loss='dpo'"),
        (data, "dpo", {}, "takes at least one row, all of trainer.preferences"),
        ([*pairs, *data], "dpo", {}, "takes at least one row, all of trainer.preferences"),
        ([], "dpo", {}, "takes at least one row"),
        (pairs, "dpo", {"beta": 0}, "dpo has beta = 0: write a number above 0"),
    ):
        with pytest.raises(TrainingStopped, match=sentence):
            trainer.step(batch, loss=loss, config=config)
    assert trainer.log.losses == []


def test_the_starting_model_is_the_reference(trainer, engine, tmp_path):
    before = trainer.preferences([ROW])
    with pytest.raises(ValueError, match="call start_from before preferences"):
        trainer.start_from("elsewhere")
    trainer.step(before, loss="dpo", learning_rate=0.002)
    with pytest.raises(ValueError, match="the starting model is the reference: call preferences before"):
        trainer.preferences([ROW])
    trainer.save(tmp_path)
    later = EmbeddedTrainer(engine, LoraSpec(rank=4), folder=tmp_path)
    later.start_from(tmp_path)

    assert later.preferences([ROW])[0].reference > before[0].reference


def test_a_file_of_preferences_belongs_to_the_training(trainer, tmp_path):
    (tmp_path / "pairs.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")

    assert len(trainer.preferences("pairs.jsonl")) == 1
    assert trainer.files == {tmp_path / "pairs.jsonl"}
