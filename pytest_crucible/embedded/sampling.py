"""Replies of a model to prompts: many at once, and each the same as if it were alone.

    replies = sample(folded, shape, tokenizer, prompts, params)      # prompt by prompt, `num_samples` replies each

The random numbers of a reply depend on the seed, the prompt and the number of the sample among those of its prompt, and on
nothing else: neither on the other prompts nor on their order. Different prompts get independent numbers; two models that
are asked the same with the same seed get the same numbers, so their replies differ by the models alone.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from pytest_crucible.embedded.choosing import Narrowing, choose, log_softmax, most_probable
from pytest_crucible.embedded.decoding import Decoder, Prefilled, prefill
from pytest_crucible.embedded.model import Folded
from pytest_crucible.embedded.shape import Floats, Integers, Shape
from pytest_crucible.embedded.stops import Stop, Stops
from pytest_crucible.embedded.tokens import Tokenizer

SLOTS = 64
"""Rows that are decoded at once at most."""

StopReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to reply to a prompt: Tinker's names and defaults.

    `max_tokens` None goes on to the end of the context. `seed` None draws one. `stop` None ends a reply at the end token;
    otherwise it holds texts, token ids and sequences of token ids, any of which ends the reply, and () ends at nothing.
    """

    max_tokens: int | None = None
    seed: int | None = None
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    stop: tuple[Stop, ...] | None = None
    num_samples: int = 1

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {self.max_tokens}")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"the temperature must be 0 or more, not {self.temperature}")
        if self.top_k != -1 and self.top_k < 1:
            raise ValueError(f"top_k must be -1 (all tokens) or at least 1, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, not {self.num_samples}")
        if self.stop is not None and not isinstance(self.stop, tuple):
            raise ValueError(f"stop must be a tuple of texts, ids and tuples of ids, not {self.stop!r}")


@dataclass(frozen=True, slots=True)
class Sampled:
    """One reply.

    `tokens` hold what ended the reply, if something did; `text` does not. `logprobs` are the model's own, at temperature 1 and
    over all tokens. `topk_tokens` and `topk_logprobs` (tokens, k), the most probable first, are None when not asked for.
    """

    tokens: list[int]
    logprobs: list[float]
    stop_reason: StopReason
    text: str
    topk_tokens: Integers | None = None
    topk_logprobs: Floats | None = None


@dataclass(slots=True)
class _Row:
    """A reply in the making."""

    place: int
    limit: int
    uniforms: Floats
    stops: Stops
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    topk: list[tuple[Integers, Floats]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One reply that is wanted: where it belongs, and which sample of which prompt it is."""

    place: int
    prompt: list[int]
    params: SamplingParams
    number: int
    seed: int


def sample(
    folded: Folded,
    shape: Shape,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    params: Sequence[SamplingParams],
    *,
    topk: int = 0,
    slots: int = SLOTS,
) -> list[Sampled]:
    """Replies to all prompts, in order; those of one prompt with `num_samples` > 1 follow each other.

    With `topk`, the k most probable tokens at each position as well. A prompt that is empty, that leaves no room in the
    context or holds ids that do not exist raises ValueError, before anything is sampled.
    """
    asked = _asked(prompts, params, shape)
    replies: dict[int, Sampled] = {}
    if asked:
        batch = _Batch(folded, shape, tokenizer, asked, topk, min(slots, len(asked)))
        while batch.fill():
            replies |= batch.step()
    return [replies[place] for place in range(len(replies))]


class PromptTooLong(ValueError):
    """A prompt that fills the context, so that no reply has room."""


def check_prompt(prompt: Sequence[int], shape: Shape, *, room: int = 1) -> None:
    """Raise ValueError for a prompt that cannot be read with `room` more tokens after it, PromptTooLong for its length."""
    if not prompt:
        raise ValueError("the prompt is empty, wanted at least one token")
    if len(prompt) + room > shape.context:
        raise PromptTooLong(
            f"the prompt has {len(prompt)} tokens, which leaves no room in a context of {shape.context}"
        )
    if wrong := [token for token in prompt if not 0 <= token < shape.vocabulary]:
        raise ValueError(f"token {wrong[0]} of the prompt does not exist, ids are 0 to {shape.vocabulary - 1}")


def _asked(prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams], shape: Shape) -> list[_Asked]:
    if len(prompts) != len(params):
        raise ValueError(f"{len(prompts)} prompts and {len(params)} parameters were given, wanted as many of each")
    asked: list[_Asked] = []
    for prompt, one in zip(prompts, params, strict=True):
        check_prompt(prompt, shape)
        seed = secrets.randbits(63) if one.seed is None else one.seed
        for number in range(one.num_samples):
            asked.append(_Asked(len(asked), list(prompt), one, number, seed))
    return asked


class _Batch:
    """Rows that are being decoded, and those that wait for a slot. Equal prompts follow each other and are read once."""

    def __init__(
        self, folded: Folded, shape: Shape, tokenizer: Tokenizer, asked: list[_Asked], topk: int, slots: int
    ) -> None:
        self.folded, self.shape, self.tokenizer, self.topk, self.slots = folded, shape, tokenizer, topk, slots
        self.waiting = deque(sorted(asked, key=lambda one: (len(one.prompt), one.prompt)))
        longest = max(len(one.prompt) + self._limit(one) for one in asked)
        self.decoder = Decoder(folded, shape, slots, longest)
        self.rows: list[_Row] = []
        self.logits = np.empty((slots, shape.vocabulary), folded.embedding.dtype)
        self.narrowing = Narrowing(np.empty(slots), np.empty(slots, np.int64), np.empty(slots))
        self.read: tuple[list[int], Prefilled] | None = None

    def fill(self) -> bool:
        """Give free slots to those who wait; whether any row is left."""
        while self.waiting and len(self.rows) < self.slots:
            asked = self.waiting.popleft()
            if self.read is None or self.read[0] != asked.prompt:
                self.read = asked.prompt, prefill(self.folded, self.shape, asked.prompt)
            slot = self.decoder.put(self.read[1])
            self.logits[slot] = self.read[1].logits
            self.narrowing.temperature[slot] = asked.params.temperature
            self.narrowing.top_k[slot] = asked.params.top_k
            self.narrowing.top_p[slot] = asked.params.top_p
            self.rows.append(self._row(asked))
        return bool(self.rows)

    def step(self) -> dict[int, Sampled]:
        """One more token in every row; replies that are complete."""
        count = len(self.rows)
        logits = self.logits[:count]
        uniforms = np.array([row.uniforms[len(row.tokens)] for row in self.rows])
        tokens = choose(logits, uniforms, self.narrowing.at(slice(0, count)))
        logprobs = log_softmax(logits)
        self._keep(tokens, logprobs)
        done = {}
        for slot in reversed(range(count)):
            if reply := self._ended(self.rows[slot]):
                done[self.rows[slot].place] = reply
                tokens[slot] = tokens[len(self.rows) - 1]
                self._drop(slot)
        if self.rows:
            self.logits[: len(self.rows)] = self.decoder.step(tokens[: len(self.rows)])
        return done

    def _limit(self, asked: _Asked) -> int:
        room = self.shape.context - len(asked.prompt)
        return room if asked.params.max_tokens is None else min(room, asked.params.max_tokens)

    def _row(self, asked: _Asked) -> _Row:
        limit = self._limit(asked)
        return _Row(asked.place, limit, _stream(asked).random(limit), Stops(asked.params.stop, self.tokenizer))

    def _keep(self, tokens: Integers, logprobs: Floats) -> None:
        chosen = logprobs[np.arange(len(tokens)), tokens].tolist()
        for row, token, logprob in zip(self.rows, tokens.tolist(), chosen, strict=True):
            row.tokens.append(token)
            row.logprobs.append(logprob)
        if self.topk:
            best, values = most_probable(logprobs, self.topk)
            for slot, row in enumerate(self.rows):
                row.topk.append((best[slot], values[slot]))

    def _ended(self, row: _Row) -> Sampled | None:
        kept = row.stops.text_before_end(row.tokens)
        if kept is None and len(row.tokens) < row.limit:
            return None
        text = self.tokenizer.decode(row.tokens) if kept is None else kept
        reason: StopReason = "length" if kept is None else "stop"
        if not row.topk:
            return Sampled(row.tokens, row.logprobs, reason, text)
        best, values = (np.stack(one) for one in zip(*row.topk, strict=True))
        return Sampled(row.tokens, row.logprobs, reason, text, best, values)

    def _drop(self, slot: int) -> None:
        last = len(self.rows) - 1
        self.decoder.drop(slot)
        self.rows[slot] = self.rows[last]
        self.rows.pop()
        for one in (self.narrowing.temperature, self.narrowing.top_k, self.narrowing.top_p):
            one[slot] = one[last]


def _stream(asked: _Asked) -> np.random.Generator:
    """Uniform numbers of one reply."""
    told = hashlib.blake2b(repr((asked.seed, asked.number, asked.prompt)).encode(), digest_size=16)
    return np.random.Generator(np.random.Philox(key=int.from_bytes(told.digest(), "little")))
