"""Replies to sample requests: computed together, each equal to what it would be alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pytest_crucible.local_model.config import Floats, Integers
from pytest_crucible.local_model.engine import Sampler, Scored
from pytest_crucible.local_model.sampling import Sampled, SamplingParams
from pytest_crucible.local_model.server.base_models import BaseModel

MAX_SAMPLERS = 16


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights to sample from: a base model, or an adapter on it in a directory."""

    base: BaseModel
    directory: Path | None = None
    model_path: str | None = None
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Scoring:
    """Requested scores of the prompt itself."""

    topk: int = 0
    last: int | None = None
    """Number of positions at the end; None for all."""
    targets: Integers | None = None
    """Other tokens to score, (tokens of the prompt - 1, k); -1 for none."""
    sparse: tuple[Integers, Integers] | None = None
    """Starts of rows and column indices, if the targets came as compressed rows: the response uses the same layout."""
    alternatives: int = 0


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request to sample replies to a prompt, and to score it if it has `scoring`."""

    prompt: list[int]
    params: SamplingParams
    topk: int = 0
    scoring: Scoring | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a sample request."""

    replies: Sequence[Sampled]
    scored: Scored | None = None
    alternatives: tuple[Integers, Floats] | None = None


class Samplers:
    """The most recently used samplers, by weights."""

    def __init__(self) -> None:
        self._samplers: OrderedDict[Weights, Sampler] = OrderedDict()

    def answers(self, weights: Weights, requests: Sequence[SampleRequest]) -> list[Answer]:
        """Answer requests to the same weights with the same number of top tokens."""
        sampler = self._sampler(weights)
        replies = sampler.sample(
            [item.prompt for item in requests], [item.params for item in requests], topk=requests[0].topk
        )
        ends = np.cumsum([item.params.num_samples for item in requests])
        of_each = (replies[end - item.params.num_samples : end] for end, item in zip(ends, requests, strict=True))
        return [_answer(sampler, request, own) for request, own in zip(requests, of_each, strict=True)]

    def embed(self, weights: Weights, prompts: Sequence[Sequence[int]]) -> list[Floats]:
        """Return a vector for each prompt."""
        sampler = self._sampler(weights)
        return [sampler.embed(prompt) for prompt in prompts]

    def _sampler(self, weights: Weights) -> Sampler:
        if weights not in self._samplers:
            self._samplers[weights] = weights.base.engine.sampler(weights.directory)
        # Least recently used first: loaded adapters cost memory.
        self._samplers.move_to_end(weights)
        if len(self._samplers) > MAX_SAMPLERS:
            self._samplers.popitem(last=False)
        return self._samplers[weights]


def _answer(sampler: Sampler, request: SampleRequest, replies: Sequence[Sampled]) -> Answer:
    scoring = request.scoring
    if scoring is None:
        return Answer(replies)
    scored = sampler.logprobs(request.prompt, topk=scoring.topk, targets=scoring.targets)
    if scoring.last is not None:
        scored.logprobs[: -scoring.last] = np.nan
        if scored.topk_logprobs is not None:
            scored.topk_logprobs[: -scoring.last] = np.nan
    return Answer(
        replies, scored, _alternatives(sampler, request, scoring.alternatives) if scoring.alternatives else None
    )


def _alternatives(sampler: Sampler, request: SampleRequest, count: int) -> tuple[Integers, Floats]:
    """Draw at each position of the prompt but the first, at the request's temperature; shape (tokens - 1, count)."""
    scored = sampler.logprobs(request.prompt, topk=sampler.engine.shape.vocabulary)
    assert scored.topk_tokens is not None
    assert scored.topk_logprobs is not None
    tokens, logprobs = scored.topk_tokens[1:], scored.topk_logprobs[1:]
    positions = np.zeros((len(tokens), count), np.int64)
    if request.params.temperature > 0:
        shares = np.exp((logprobs - logprobs[:, :1]).astype(np.float64) / request.params.temperature)
        cumulative = np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True)
        # Philox: the same stream on every platform for a given seed.
        random = np.random.Generator(np.random.Philox((request.params.seed or 0) % 2**64))
        for row, uniforms in enumerate(random.random(positions.shape)):
            positions[row] = np.searchsorted(cumulative[row], uniforms, side="right")
        # Rounding can leave the cumulative sum just below 1.
        np.minimum(positions, tokens.shape[1] - 1, out=positions)
    return np.take_along_axis(tokens, positions, axis=1).astype(np.int64), np.take_along_axis(
        logprobs, positions, axis=1
    )
