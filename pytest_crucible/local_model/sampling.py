"""Replies of a model to prompts: many at once, and each the same as if it were sampled alone.

    replies = sample(folded, shape, tokenizer, prompts, params)      # prompt by prompt, `num_samples` replies each

The random numbers of a reply depend on the seed, the prompt and the number of the sample among those of its prompt, and on
nothing else: neither on the other prompts nor on their order. Different prompts get independent numbers; two models that
are asked the same with the same seed get the same numbers, so their replies differ by the models alone.
"""

from __future__ import annotations

import codecs
import hashlib
import math
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from pytest_crucible.local_model.config import Floats, Integers, Shape
from pytest_crucible.local_model.decoding import (
    Decoder,
    Narrowing,
    Prefilled,
    choose,
    log_softmax,
    most_probable,
    prefill,
)
from pytest_crucible.local_model.grammar import Constraint, Language
from pytest_crucible.local_model.model import Folded
from pytest_crucible.local_model.tokens import Tokenizer

# The most rows decoded at once: their cached keys and values bound the memory.
SLOTS = 64
# Of the longest prompts with their replies fewer fit: their cached keys and values take as much memory as 64 rows of 512 tokens.
_POSITIONS = SLOTS * 512

StopReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Settings of a reply, with Tinker's names and defaults.

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
    language: Language | None = None
    """The texts that a reply may have; None for any."""
    watch: Callable[[int, int], None] | None = None
    """Called with the number of the sample and each token as it is chosen; in the thread that samples."""
    is_abandoned: Callable[[], bool] | None = None
    """Whether nothing waits for the replies any more: they then end at their next token."""

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
    """A sampled reply: its tokens and text, and why it ended.

    `tokens` hold what ended the reply, if something did; `text` does not. `logprobs` are the model's own, at temperature 1 and
    over all tokens. `topk_tokens` and `topk_logprobs` (tokens, k), the most probable first, are None unless requested.
    """

    tokens: list[int]
    logprobs: list[float]
    stop_reason: StopReason
    text: str
    topk_tokens: Integers | None = None
    topk_logprobs: Floats | None = None


@dataclass(slots=True)
class _Row:
    """A reply in progress."""

    request: _Request
    limit: int
    uniforms: Floats
    stops: Stops
    constraint: Constraint | None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    topk: list[tuple[Integers, Floats]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """True where the reply ends without a stop."""
        is_abandoned = self.request.params.is_abandoned
        return len(self.tokens) >= self.limit or (is_abandoned is not None and is_abandoned())


@dataclass(frozen=True, slots=True)
class _Request:
    """One requested reply: its place in the results, its prompt, and the number of the sample for that prompt."""

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
    """Return replies to all prompts, in order; those of one prompt with `num_samples` > 1 follow each other.

    With `topk`, the k most probable tokens at each position as well. A prompt that is empty, that leaves no room in the
    context or has unknown ids raises ValueError, before anything is sampled.
    """
    requests = _requests(prompts, params, shape)
    replies: dict[int, Sampled] = {}
    if requests:
        batch = _Batch(folded, shape, tokenizer, requests, topk, min(slots, len(requests)))
        while batch.fill():
            replies |= batch.step()
    return [replies[place] for place in range(len(replies))]


class PromptTooLong(ValueError):
    """A prompt that fills the context, so that a reply has no room."""


def check_prompt(prompt: Sequence[int], shape: Shape, *, room: int = 1) -> None:
    """Raise ValueError for an invalid prompt, PromptTooLong when `room` more tokens do not fit after it."""
    if not prompt:
        raise ValueError("the prompt is empty: give at least one token")
    if len(prompt) + room > shape.context:
        raise PromptTooLong(
            f"the prompt has {len(prompt)} tokens, which leaves no room in a context of {shape.context}"
        )
    if wrong := [token for token in prompt if not 0 <= token < shape.vocabulary]:
        raise ValueError(f"token {wrong[0]} of the prompt does not exist, ids are 0 to {shape.vocabulary - 1}")


def check_request(prompt: Sequence[int], params: SamplingParams, shape: Shape) -> None:
    """Raise ValueError for an invalid prompt, and where a reply in the requested language would be longer than allowed."""
    check_prompt(prompt, shape)
    limit = _limit(prompt, params, shape)
    if params.language is not None and (least := params.language.least_tokens()) > limit:
        if math.isinf(least):
            raise ValueError("no reply has this format: each of its values contains another one, without an end")
        raise ValueError(
            f"a reply in this format has {least:g} tokens at least, and {limit} are left: raise max_tokens"
        )


def _limit(prompt: Sequence[int], params: SamplingParams, shape: Shape) -> int:
    room = shape.context - len(prompt)
    return room if params.max_tokens is None else min(room, params.max_tokens)


def _requests(prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams], shape: Shape) -> list[_Request]:
    if len(prompts) != len(params):
        raise ValueError(
            f"{len(prompts)} prompts and {len(params)} parameters: give one set of parameters for each prompt"
        )
    requests: list[_Request] = []
    for prompt, param in zip(prompts, params, strict=True):
        check_request(prompt, param, shape)
        # Samples of one prompt share the seed; their numbers tell their streams apart.
        seed = secrets.randbits(63) if param.seed is None else param.seed
        for number in range(param.num_samples):
            requests.append(_Request(len(requests), list(prompt), param, number, seed))
    return requests


class _Batch:
    """Rows that are being decoded, and those that wait for a slot.

    Equal prompts follow each other and are read once.
    """

    def __init__(
        self, folded: Folded, shape: Shape, tokenizer: Tokenizer, requests: list[_Request], topk: int, slots: int
    ) -> None:
        self.folded, self.shape, self.tokenizer, self.topk = folded, shape, tokenizer, topk
        # By length and content, so that equal prompts become neighbours and are read once.
        self.waiting = deque(sorted(requests, key=lambda request: (len(request.prompt), request.prompt)))
        longest = max(len(request.prompt) + _limit(request.prompt, request.params, shape) for request in requests)
        self.slots = min(slots, max(1, _POSITIONS // longest))
        self.decoder = Decoder(folded, shape, self.slots, longest)
        self.rows: list[_Row] = []
        self.logits = np.empty((self.slots, shape.vocabulary), folded.embedding.dtype)
        self.narrowing = Narrowing(np.empty(self.slots), np.empty(self.slots, np.int64), np.empty(self.slots))
        self.read: tuple[list[int], Prefilled] | None = None

    def fill(self) -> bool:
        """Give free slots to waiting requests; return True while any row is left."""
        while self.waiting and len(self.rows) < self.slots:
            request = self.waiting.popleft()
            if self.read is None or self.read[0] != request.prompt:
                self.read = request.prompt, prefill(self.folded, self.shape, request.prompt)
            slot = self.decoder.put(self.read[1])
            self.logits[slot] = self.read[1].logits
            self.narrowing.temperature[slot] = request.params.temperature
            self.narrowing.top_k[slot] = request.params.top_k
            self.narrowing.top_p[slot] = request.params.top_p
            self.rows.append(self._row(request))
        return bool(self.rows)

    def step(self) -> dict[int, Sampled]:
        """Add one token to every row; return the complete replies."""
        count = len(self.rows)
        logits = self.logits[:count]
        uniforms = np.array([row.uniforms[len(row.tokens)] for row in self.rows])
        tokens = choose(self._constrain(logits), uniforms, self.narrowing.at(slice(0, count)))
        logprobs = log_softmax(logits)
        self._record(tokens, logprobs)
        complete = {}
        # Backwards, because dropping a row moves the last one into its slot.
        for slot in reversed(range(count)):
            if reply := self._finish_if_complete(self.rows[slot]):
                complete[self.rows[slot].request.place] = reply
                tokens[slot] = tokens[len(self.rows) - 1]
                self._drop(slot)
        if self.rows:
            self.logits[: len(self.rows)] = self.decoder.step(tokens[: len(self.rows)])
        return complete

    def _constrain(self, logits: Floats) -> Floats:
        """Return the logits with those of tokens that are not allowed removed; the same array where no row is constrained."""
        if not any(row.constraint for row in self.rows):
            return logits
        constrained = logits.copy()
        for slot, row in enumerate(self.rows):
            if row.constraint is not None:
                allowed = row.constraint.find_mask(row.limit - len(row.tokens))
                constrained[slot, : len(allowed)][~allowed] = -np.inf
                constrained[slot, len(allowed) :] = -np.inf
        return constrained

    def _row(self, request: _Request) -> _Row:
        limit, language = _limit(request.prompt, request.params, self.shape), request.params.language
        constraint = None if language is None else Constraint(language)
        stops = Stops(request.params.stop, self.tokenizer)
        return _Row(request, limit, _stream(request).random(limit), stops, constraint)

    def _record(self, tokens: Integers, logprobs: Floats) -> None:
        chosen = logprobs[np.arange(len(tokens)), tokens].tolist()
        for row, token, logprob in zip(self.rows, tokens.tolist(), chosen, strict=True):
            row.tokens.append(token)
            if row.constraint is not None:
                row.constraint.advance(token)
            if (watch := row.request.params.watch) is not None:
                watch(row.request.number, token)
            row.logprobs.append(logprob)
        if self.topk:
            best, values = most_probable(logprobs, self.topk)
            for slot, row in enumerate(self.rows):
                row.topk.append((best[slot], values[slot]))

    def _finish_if_complete(self, row: _Row) -> Sampled | None:
        text_kept = row.stops.text_before_end(row.tokens)
        if text_kept is None and not row.is_over:
            return None
        text = self.tokenizer.decode(row.tokens) if text_kept is None else text_kept
        reason: StopReason = "length" if text_kept is None else "stop"
        if not row.topk:
            return Sampled(row.tokens, row.logprobs, reason, text)
        best, values = (np.stack(column) for column in zip(*row.topk, strict=True))
        return Sampled(row.tokens, row.logprobs, reason, text, best, values)

    def _drop(self, slot: int) -> None:
        last = len(self.rows) - 1
        self.decoder.drop(slot)
        self.rows[slot] = self.rows[last]
        self.rows.pop()
        for setting in (self.narrowing.temperature, self.narrowing.top_k, self.narrowing.top_p):
            setting[slot] = setting[last]


def _stream(request: _Request) -> np.random.Generator:
    # Philox is counter-based: any 128-bit key gives an independent stream, so a digest can be the key.
    digest = hashlib.blake2b(repr((request.seed, request.number, request.prompt)).encode(), digest_size=16)
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))


Stop: TypeAlias = str | int | tuple[int, ...]


class Stops:
    """Watches one reply grow. Texts are compared as bytes, because a token can end within a character."""

    def __init__(self, stop: Sequence[Stop] | None, tokenizer: Tokenizer) -> None:
        """Prepare the stops: None stops at the end token, an empty sequence never.

        An empty text or sequence raises ValueError.
        """
        stops = (tokenizer.eos,) if stop is None else tuple(stop)
        if empty := [item for item in stops if item in ("", ())]:
            raise ValueError(f"{empty[0]!r} cannot end a reply: it is empty")
        self._tokenizer = tokenizer
        # The text of a reserved token is never decoded, so that only its id can end a reply.
        stops = tuple(_id_of_reserved(item, tokenizer) for item in stops)
        self._tokens = [
            (item,) if isinstance(item, int) else tuple(item) for item in stops if not isinstance(item, str)
        ]
        self._texts = [item.encode("utf-8") for item in stops if isinstance(item, str)]
        self._longest = max(map(len, self._texts), default=0)
        self._tail = b""

    def text_before_end(self, tokens: list[int]) -> str | None:
        """Return the text before the stop that ends the reply, or None while it continues.

        Called after each new token.
        """
        for stop in self._tokens:
            if tokens[-1] == stop[-1] and tuple(tokens[-len(stop) :]) == stop:
                return self._tokenizer.decode(tokens[: -len(stop)])
        if not self._texts:
            return None
        new = self._tokenizer.bytes_of(tokens[-1:])
        recent = self._tail + new
        # A stop text may begin in earlier tokens; longer tails cannot contain its start.
        self._tail = recent[-(self._longest - 1) :] if self._longest > 1 else b""
        if not any(stop in recent for stop in self._texts):
            return None
        # Only now, once a reply: decoding the whole text after each token would be quadratic.
        whole = self._tokenizer.bytes_of(tokens)
        return whole[: min(whole.find(stop) for stop in self._texts if stop in whole)].decode("utf-8", errors="replace")


def _id_of_reserved(stop: Stop, tokenizer: Tokenizer) -> Stop:
    token = tokenizer.reserved_id(stop) if isinstance(stop, str) else None
    return stop if token is None else token


class TextPieces:
    """The text of one reply in pieces: an incomplete character, and text that may become a stop, wait for the next token."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._waiting = ""
        self.sent = ""

    def add(self, token: int) -> str:
        """Return the text that is certain after one more token."""
        self._waiting += self._decoder.decode(self._tokenizer.bytes_of([token]))
        held = max((_overlap(self._waiting, stop) for stop in self._stops), default=0)
        # A whole stop may be in the text: then its reply has ended, and `rest` gives what comes before it.
        if any(stop in self._waiting for stop in self._stops):
            return ""
        piece, self._waiting = self._waiting[: len(self._waiting) - held], self._waiting[len(self._waiting) - held :]
        self.sent += piece
        return piece

    def rest(self, text: str) -> str:
        """Return the rest of a reply's text."""
        return text[len(self.sent) :]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of a text that a stop begins with.

    >>> _overlap("one\\n", "\\n\\nUser:"), _overlap("one", "two")
    (1, 0)
    """
    return next((size for size in range(min(len(text), len(stop)), 0, -1) if text.endswith(stop[:size])), 0)
