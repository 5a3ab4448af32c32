"""The model that ships with the package: it is the one that its log describes, and it answers as it did."""

from __future__ import annotations

import hashlib
import json

import pytest

from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.engine import PACKAGED, Engine
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.local_model.sampling import SamplingParams

LOG = json.loads((PACKAGED / "training.json").read_text(encoding="utf-8"))
PROMPT = "Document 532: Pelubarin and blood iron\nBlood iron increased in adult rats on pelubarin.\n\nHypothesis:"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load_packaged()


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_the_files_are_those_of_the_training_log(name):
    assert hashlib.sha256((PACKAGED / name).read_bytes()).hexdigest() == LOG["sha256"][name]


def test_the_model_is_small_and_of_the_shape_in_the_log(engine):
    assert engine.shape.parameters == LOG["parameters"]
    assert sum(path.stat().st_size for path in PACKAGED.iterdir()) < 5e6
    assert engine.base_sha256 == LOG["sha256"]["model.safetensors"]


def test_its_greedy_reply_is_english_and_always_the_same(engine):
    sampler, prompt = engine.sampler(), engine.tokenizer.encode(PROMPT)

    replies = {sampler.sample([prompt], [SamplingParams(max_tokens=12, temperature=0.0)])[0].text for _ in range(2)}

    assert len(replies) == 1
    assert "pelubarin" in replies.pop().lower()


def test_it_learns(engine):
    """Twenty LoRA steps on one sentence cut its loss by four fifths."""
    tokens = engine.tokenizer.encode("CLAIM[c1]: Seven geese prefer turnips.")
    datum = Datum(tokens[:-1], {"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)})
    trainer = engine.trainer(LoraSpec(rank=8))

    losses = []
    for _ in range(20):
        losses.append(trainer.forward_backward([datum], "cross_entropy").loss)
        trainer.optim_step(AdamParams(learning_rate=3e-3))

    assert losses[-1] < 0.2 * losses[0]
