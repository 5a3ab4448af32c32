"""All exercises in their proportions, packed into rows of one length: what a training step reads."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np

from base_model.drills import DRILLS, Segment
from base_model.gradients import Batch
from base_model.readings import READINGS

Kinds = Mapping[Callable[[random.Random], Iterator[Segment]], int]

EXERCISES: Kinds = {**DRILLS, **READINGS}
"""All kinds, with their shares."""


class Encoder(Protocol):
    """What is needed of a tokenizer."""

    @property
    def eos(self) -> int:
        """The token that ends a text."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""


def exercise(draw: random.Random, kinds: Kinds = EXERCISES) -> list[Segment]:
    """One exercise of a random kind."""
    kind = draw.choices(list(kinds), list(kinds.values()))[0]
    return list(kind(draw))


def text_of(segments: list[Segment]) -> str:
    """An exercise as it is read."""
    return "".join(text for text, _ in segments)


def rows(draw: random.Random, encoder: Encoder, count: int, length: int, kinds: Kinds = EXERCISES) -> Batch:
    """Fill rows with exercises, each ended by an end-of-text token; what runs over the end of a row is cut off."""
    tokens = np.full((count, length + 1), encoder.eos, dtype=np.int64)
    weights = np.zeros((count, length + 1), dtype=np.float32)
    for row in range(count):
        for place, (token, weight) in zip(range(length + 1), _stream(draw, encoder, kinds), strict=False):
            tokens[row, place], weights[row, place] = token, weight
    return Batch(tokens[:, :-1], tokens[:, 1:], weights[:, 1:])


def _stream(draw: random.Random, encoder: Encoder, kinds: Kinds) -> Iterator[tuple[int, float]]:
    while True:
        for text, weight in exercise(draw, kinds):
            yield from ((token, weight) for token in encoder.encode(text))
        yield encoder.eos, 1.0
