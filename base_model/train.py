"""Trains the base model from nothing: generated text, a tokenizer from it, and so many steps of the engine's own gradients.

Steps are counted, not minutes, and everything random has a seed: a second run gives the same text and the same course, and
weights that are equal up to the rounding of the machine's matrix products (not bit by bit on another machine).
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import numpy as np

from base_model.drills import DRILLS
from base_model.gradients import Batch, initial_weights, log_likelihood, loss_and_gradients
from base_model.mixture import EXERCISES, Kinds, exercise, rows, text_of
from base_model.muon import Optimiser
from base_model.tokenizer import train_tokenizer
from pytest_crucible.local_model.config import Shape, Weights
from pytest_crucible.local_model.tokens import Tokenizer

SHAPE = Shape(vocabulary=1024, width=128, layers=4, heads=4, mlp=512, context=512)


@dataclass(frozen=True, slots=True)
class Course:
    """All that decides a run besides the text's own words."""

    steps: int = 2000
    tokens_per_step: int = 3072
    rows: tuple[int, int, int] = (128, 256, 512)
    """Tokens in a row: at first, then, and at last."""
    drills_until: float = 0.25
    """The first share of the steps reads short rows of drills alone: finding and copying come first, all else needs them."""
    long_rows_from: float = 0.9
    """The last share of the steps reads rows as long as the context."""
    muon_rate: float = 0.012
    adam_rate: float = 0.005
    warm_up_steps: int = 20
    decay_from: float = 0.35
    """From this share of the steps on, the learning rates fall linearly to `last_rate`."""
    last_rate: float = 0.02
    text_seed: int = 5
    weights_seed: int = 1
    tokenizer_seed: int = 0
    validation_seed: int = 99

    def rate(self, step: int) -> float:
        """Share of the full learning rates at a step, counted from 1.

        >>> Course(steps=100, warm_up_steps=10).rate(5), Course(steps=100).rate(40), Course(steps=100).rate(100)
        (0.5, 1.0, 0.02)
        """
        left = (self.steps - step) / (self.steps * (1 - self.decay_from))
        return min(1.0, step / self.warm_up_steps, self.last_rate + (1 - self.last_rate) * left)

    def reads(self, step: int) -> tuple[int, Kinds]:
        """Tokens in a row at a step, and kinds of exercises."""
        if step <= self.drills_until * self.steps:
            return self.rows[0], DRILLS
        return self.rows[2 if step > self.long_rows_from * self.steps else 1], EXERCISES


def make_tokenizer(seed: int) -> Tokenizer:
    """A tokenizer of six thousand exercises."""
    draw = random.Random(seed)
    return train_tokenizer([text_of(exercise(draw)) for _ in range(6000)], SHAPE.vocabulary)


def train(
    course: Course, tokenizer: Tokenizer, *, last_step: int | None = None
) -> tuple[Weights, list[dict[str, float]]]:
    """Return the weights, and the loss by step: nats per token over all that counts (training) and over answers (validation).

    With `last_step` the run ends early; its steps are those of the whole course.
    """
    weights, optimiser = initial_weights(SHAPE, course.weights_seed), Optimiser(course.muon_rate, course.adam_rate)
    draw, validation = random.Random(course.text_seed), answers_only(course, tokenizer)
    losses: list[float] = []
    log: list[dict[str, float]] = []
    for step in range(1, (last_step or course.steps) + 1):
        length, kinds = course.reads(step)
        batch = rows(draw, tokenizer, course.tokens_per_step // length, length, kinds)
        counted = float(batch.weights.sum())
        loss, gradients = loss_and_gradients(weights, SHAPE, batch)
        optimiser.step(weights, {name: each / counted for name, each in gradients.items()}, course.rate(step))
        losses.append(loss / counted)
        if step % 50 == 0 or step == course.steps:
            log.append({"step": step, "training": _mean(losses), "validation": _nats(weights, validation)})
            losses.clear()
            print(json.dumps(log[-1]), flush=True)
    return weights, log


def answers_only(course: Course, tokenizer: Tokenizer) -> Batch:
    """Rows from a seed of their own in which nothing but answers counts."""
    batch = rows(random.Random(course.validation_seed), tokenizer, 24, course.rows[1])
    return Batch(batch.tokens, batch.targets, (batch.weights >= 1).astype(np.float32))


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4)


def _nats(weights: Weights, batch: Batch) -> float:
    return round(-log_likelihood(weights, SHAPE, batch) / float(batch.weights.sum()), 4)
