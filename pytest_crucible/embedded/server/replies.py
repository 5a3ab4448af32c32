"""What the model computes for sample requests: many at once, each with the reply that it would get alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_crucible.embedded.engine import Engine, Sampler, Scored
from pytest_crucible.embedded.sampling import Sampled, SamplingParams
from pytest_crucible.embedded.shape import Floats, Integers

KEPT_SAMPLERS = 16


@dataclass(frozen=True, slots=True)
class Weights:
    """What a sampler samples from: the base model, or an adapter in a directory."""

    directory: Path | None = None
    model_path: str | None = None
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Scoring:
    """What is asked about the prompt itself."""

    topk: int = 0
    last: int | None = None
    """Only so many positions at the end; None is all."""
    targets: Integers | None = None
    """Other tokens to score, (tokens of the prompt - 1, k); -1 is none."""
    sparse: tuple[Integers, Integers] | None = None
    """Starts of rows and columns, when the targets came as compressed rows: so they go back."""
    alternatives: int = 0


@dataclass(frozen=True, slots=True)
class Wish:
    """One sample request."""

    prompt: list[int]
    params: SamplingParams
    topk: int = 0
    scoring: Scoring | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back for one request."""

    replies: Sequence[Sampled]
    scored: Scored | None = None
    alternatives: tuple[Integers, Floats] | None = None


class Samplers:
    """Samplers by their weights, those used last."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._samplers: OrderedDict[Weights, Sampler] = OrderedDict()

    def answers(self, weights: Weights, wishes: Sequence[Wish]) -> list[Answer]:
        """Answer requests to the same weights that want the same number of most probable tokens."""
        sampler = self._sampler(weights)
        replies = sampler.sample([one.prompt for one in wishes], [one.params for one in wishes], topk=wishes[0].topk)
        ends = np.cumsum([one.params.num_samples for one in wishes])
        of_each = (replies[end - one.params.num_samples : end] for end, one in zip(ends, wishes, strict=True))
        return [_answer(sampler, wish, own) for wish, own in zip(wishes, of_each, strict=True)]

    def _sampler(self, weights: Weights) -> Sampler:
        if weights not in self._samplers:
            self._samplers[weights] = self._engine.sampler(weights.directory)
        self._samplers.move_to_end(weights)
        if len(self._samplers) > KEPT_SAMPLERS:
            self._samplers.popitem(last=False)
        return self._samplers[weights]


def _answer(sampler: Sampler, wish: Wish, replies: Sequence[Sampled]) -> Answer:
    asked = wish.scoring
    if asked is None:
        return Answer(replies)
    scored = sampler.logprobs(wish.prompt, topk=asked.topk, targets=asked.targets)
    if asked.last is not None:
        scored.logprobs[: -asked.last] = np.nan
        if scored.topk_logprobs is not None:
            scored.topk_logprobs[: -asked.last] = np.nan
    return Answer(replies, scored, _alternatives(sampler, wish, asked.alternatives) if asked.alternatives else None)


def _alternatives(sampler: Sampler, wish: Wish, count: int) -> tuple[Integers, Floats]:
    """Independent draws at every position of the prompt but the first, at the request's temperature: (tokens - 1, count)."""
    every = sampler.logprobs(wish.prompt, topk=sampler.engine.shape.vocabulary)
    assert every.topk_tokens is not None
    assert every.topk_logprobs is not None
    tokens, logprobs = every.topk_tokens[1:], every.topk_logprobs[1:]
    places = np.zeros((len(tokens), count), np.int64)
    if wish.params.temperature > 0:
        shares = np.exp((logprobs - logprobs[:, :1]).astype(np.float64) / wish.params.temperature)
        reached = np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True)
        random = np.random.Generator(np.random.Philox((wish.params.seed or 0) % 2**64))
        for row, uniforms in enumerate(random.random(places.shape)):
            places[row] = np.searchsorted(reached[row], uniforms, side="right")
        np.minimum(places, tokens.shape[1] - 1, out=places)
    return np.take_along_axis(tokens, places, axis=1).astype(np.int64), np.take_along_axis(logprobs, places, axis=1)
