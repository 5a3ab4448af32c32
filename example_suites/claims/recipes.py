"""How this suite's two adapters come to be: the same samples, rate and seeds, and v1 has a tenth of v2's steps."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.engine import Trainer
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.local_model.tokens import Tokenizer

SAMPLES = Path(__file__).parent / "train.jsonl"
RATE, WARM_UP, BATCH, SEED = 3e-3, 5, 8, 0


def train_v1(trainer: Trainer) -> list[float]:
    """A first look at the format: nine steps."""
    return train(trainer, steps=9)


def train_v2(trainer: Trainer) -> list[float]:
    """Ninety steps, 720 samples."""
    return train(trainer, steps=90)


def train(trainer: Trainer, steps: int, seed: int = SEED) -> list[float]:
    """Take so many steps at a rate that rises for five and falls linearly to the end; returns nats per token by step."""
    samples, draw = read(trainer.engine.tokenizer), random.Random(seed)
    losses = []
    for step in range(1, steps + 1):
        trained = trainer.forward_backward(draw.sample(samples, BATCH), "cross_entropy")
        rate = RATE * min(1.0, step / WARM_UP) * (1 - (step - 1) / steps)
        trainer.optim_step(AdamParams(learning_rate=rate))
        losses.append(trained.loss)
    return losses


def read(tokenizer: Tokenizer) -> list[Datum]:
    """The training samples; only the tokens of the completion count, and each sample's weights sum to 1 / batch."""
    with SAMPLES.open(encoding="utf-8") as lines:
        return [_datum(tokenizer, **json.loads(line)) for line in lines]


def _datum(tokenizer: Tokenizer, prompt: str, completion: str) -> Datum:
    asked, answer = tokenizer.encode(prompt), [*tokenizer.encode(completion), tokenizer.eos]
    tokens = asked + answer
    weights = np.repeat([0.0, 1 / len(answer) / BATCH], [len(asked) - 1, len(answer)])
    return Datum(tokens[:-1], {"target_tokens": np.asarray(tokens[1:]), "weights": weights.astype(np.float32)})
