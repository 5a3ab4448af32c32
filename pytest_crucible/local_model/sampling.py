"""Replies of a model to prompts: many at once, and each the same as if it were sampled alone.

    replies = sample(weights, shape, tokenizer, prompts, params)      # prompt by prompt, `num_samples` replies each

The random numbers of a reply depend on the seed, the prompt and the number of the sample among those of its prompt, and on
nothing else: neither on the other prompts nor on their order. Different prompts get independent numbers; two models that
are asked the same with the same seed get the same numbers, so their replies differ by the models alone.
"""

from __future__ import annotations

import codecs
import hashlib
import math
import secrets
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import field
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.config import Floats, Integers, Shape
from pytest_crucible.local_model.decoding import (
    Decodable,
    Decoder,
    Narrowing,
    Prefilled,
    choose,
    log_softmax,
    most_probable,
)
from pytest_crucible.local_model.grammar import Constraint, Language
from pytest_crucible.local_model.losses import NotFinite
from pytest_crucible.local_model.model import Folded
from pytest_crucible.local_model.reading import PromptReading
from pytest_crucible.local_model.tokens import Tokenizer
from pytest_crucible.quick_dataclass import dataclass

# The most rows decoded at once: their cached keys and values bound the memory.
SLOTS = 64
# Of the longest prompts with their replies fewer fit: their cached keys and values take as much memory as 64 rows of 512 tokens.
_POSITIONS = SLOTS * 512

ScalarT = TypeVar("ScalarT", bound=np.generic)
StopReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a reply, its log-probability, and the most probable ones with theirs, if they were requested."""

    id: int
    logprob: float
    top: Sequence[tuple[int, float]] = ()


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
    watch: Callable[[int, Token], None] | None = None
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


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """One requested reply: its weights, its prompt, the number of the sample for that prompt, and who gets it."""

    weights: Decodable
    prompt: list[int]
    params: SamplingParams
    number: int
    seed: int
    topk: int
    """The number of most probable tokens that are wanted at each position."""
    limit: int
    owner: Any = None

    @property
    def positions(self) -> int:
        return len(self.prompt) + self.limit

    def begins_as(self, other: Reply) -> bool:
        """Return whether both continue one prompt with the same weights, so that it is read once."""
        return self.weights is other.weights and self.prompt == other.prompt

    @property
    def is_abandoned(self) -> bool:
        return self.params.is_abandoned is not None and self.params.is_abandoned()


Ended: TypeAlias = tuple[Reply, "Sampled | Exception"]
"""A reply that is complete, or the reason that it is not."""


@dataclass(slots=True)
class _Row:
    """A reply in progress, for a client."""

    request: Reply
    client: Hashable
    uniforms: Floats
    stops: Stops
    constraint: Constraint | None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    topk: list[tuple[Integers, Floats]] = field(default_factory=list)
    error: Exception | None = None

    @property
    def is_over(self) -> bool:
        """True where the reply ends without a stop."""
        return len(self.tokens) >= self.request.limit or self.request.is_abandoned

    def follow(self) -> None:
        """Pass the newest token to the constraint and to the watcher of the reply."""
        token, logprob = self.tokens[-1], self.logprobs[-1]
        if self.constraint is not None:
            self.constraint.advance(token)
        if (watch := self.request.params.watch) is not None:
            top = [(best.tolist(), values.tolist()) for best, values in self.topk[-1:]]
            watch(self.request.number, Token(token, logprob, [*zip(*top[0], strict=True)] if top else ()))


def sample(
    weights: Decodable,
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
    if len(prompts) != len(params):
        raise ValueError(
            f"{len(prompts)} prompts and {len(params)} parameters: give one set of parameters for each prompt"
        )
    requests = [
        reply
        for prompt, own in zip(prompts, params, strict=True)
        for reply in request_replies(weights, prompt, own, shape, topk)
    ]
    batch = Batch(weights.base, shape, tokenizer, slots)
    # By length and content, so that equal prompts become neighbours and are read once.
    batch.add(sorted(requests, key=lambda request: (len(request.prompt), request.prompt)))
    replies: dict[int, Sampled] = {}
    while batch.fill():
        for request, reply in batch.step():
            if isinstance(reply, Exception):
                raise reply
            replies[id(request)] = reply
    return [replies[id(request)] for request in requests]


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


def request_replies(
    weights: Decodable,
    prompt: Sequence[int],
    params: SamplingParams,
    shape: Shape,
    topk: int = 0,
    owner: Any = None,
) -> list[Reply]:
    """Return the requests of a prompt, as many as `num_samples`. Raises ValueError as `check_request` does."""
    check_request(prompt, params, shape)
    # Samples of one prompt share the seed; their numbers tell their streams apart.
    seed = secrets.randbits(63) if params.seed is None else params.seed
    tokens, limit = list(prompt), _limit(prompt, params, shape)
    return [Reply(weights, tokens, params, number, seed, topk, limit, owner) for number in range(params.num_samples)]


Submit: TypeAlias = Callable[[PromptReading], "Future[Prefilled]"]


@dataclass(frozen=True, slots=True)
class _Paused:
    """A row whose slot another client has, and what continues it."""

    row: _Row
    state: Prefilled


class Batch:
    """Rows that are decoded together, and requests that wait for a slot: they join and leave at each token.

    All are of one base, with adapters of their own. Clients have equal shares of the slots. Where all are taken, rows of the client
    with the most pause for another one's.
    """

    def __init__(
        self, base: Folded, shape: Shape, tokenizer: Tokenizer, slots: int = SLOTS, submit: Submit | None = None
    ) -> None:
        """Make an empty batch of at most so many rows. `submit` reads prompts beside; without it `fill` reads them whole."""
        self.shape, self.tokenizer, self.most = shape, tokenizer, slots
        self.decoder = Decoder(base, shape)
        self.rows: list[_Row] = []
        self._waiting: dict[Hashable, deque[Reply | _Paused]] = {}
        self._reading: list[tuple[Reply, Hashable, Future[Prefilled]]] = []
        self._submit = submit
        self._last_read: tuple[Reply, Future[Prefilled]] | None = None
        self._ended: list[Ended] = []
        self.logits = np.empty((0, shape.vocabulary), base.embedding.dtype)
        self.narrowing = Narrowing(np.empty(0), np.empty(0, np.int64), np.empty(0))

    @property
    def is_empty(self) -> bool:
        return not (self.rows or self._waiting or self._reading or self._ended)

    @property
    def is_ready(self) -> bool:
        """True where a step would change something; false while all prompts are still read."""
        is_read = any(reading.done() for _, _, reading in self._reading)
        return bool(self.rows or self._ended or is_read or (self._waiting and not self._reading))

    def add(self, requests: Iterable[Reply], client: Hashable = None) -> None:
        """Let the requests of a client wait for slots."""
        for request in requests:
            self._waiting.setdefault(client, deque()).append(request)

    def fill(self) -> bool:
        """Give slots to requests that wait; return whether anything is left to do."""
        self._drop_abandoned()
        while clients := [client for client in self._waiting if not self._is_reading(client)]:
            counts = self._count_rows()
            client = min(clients, key=counts.__getitem__)
            if not self._make_room(self._waiting[client][0], counts[client]):
                break
            self._start(client)
        # A short prompt may be read before longer ones that came first.
        for read in [entry for entry in self._reading if entry[2].done()]:
            self._reading.remove(read)
            self._join(*read)
        return not self.is_empty

    def clear(self) -> list[Reply]:
        """End everything, and return what was requested."""
        requests = [row.request for row in self.rows] + [request for request, _, _ in self._reading]
        requests += [_request_of(entry) for waiting in self._waiting.values() for entry in waiting]
        self.rows.clear()
        self.decoder.clear()
        self._reading.clear()
        self._waiting.clear()
        return requests

    def step(self) -> list[Ended]:
        """Add one token to every row; return the complete replies, and those that have failed or were abandoned."""
        if self.rows:
            self._add_tokens()
        ended, self._ended = self._ended, []
        return ended

    def _add_tokens(self) -> None:
        count = len(self.rows)
        logits = self.logits[:count]
        uniforms = np.array([row.uniforms[len(row.tokens)] for row in self.rows])
        tokens = choose(self._constrain(logits), uniforms, self.narrowing.at(slice(0, count)))
        self._record(tokens, log_softmax(logits))
        # Backwards, because dropping a row moves the last one into its slot.
        for slot in reversed(range(count)):
            if reply := self._finish_if_complete(self.rows[slot]):
                self._ended.append((self.rows[slot].request, reply))
                tokens[slot] = tokens[len(self.rows) - 1]
                self.decoder.drop(slot)
                self._forget(slot)
        if self.rows:
            self.logits[: len(self.rows)] = self.decoder.step(tokens[: len(self.rows)])

    def _is_reading(self, client: Hashable) -> bool:
        """Return whether a prompt of a client is read, so that its next one waits: the others' come between."""
        entry = self._waiting[client][0]
        in_progress = [request for request, own, _ in self._reading if own == client]
        return isinstance(entry, Reply) and bool(in_progress) and not entry.begins_as(in_progress[-1])

    def _drop_abandoned(self) -> None:
        for client, waiting in tuple(self._waiting.items()):
            while waiting and _request_of(waiting[0]).is_abandoned:
                self._ended.append((_request_of(waiting.popleft()), Sampled([], [], "length", "")))
            if not waiting:
                del self._waiting[client]

    def _count_rows(self) -> Counter[Hashable]:
        return Counter([row.client for row in self.rows] + [client for _, client, _ in self._reading])

    def _make_room(self, entry: Reply | _Paused, share: int) -> bool:
        """Return whether a request of a client with so many rows has a slot; others that have two more pause."""
        while not self._fits(_request_of(entry).positions):
            client, rows = max(
                Counter(row.client for row in self.rows).items(), key=lambda item: item[1], default=(None, 0)
            )
            if rows < share + 2:
                return False
            self._pause(client)
        return True

    def _fits(self, positions: int) -> bool:
        requests = [row.request for row in self.rows] + [request for request, _, _ in self._reading]
        longest = max((request.positions for request in requests), default=0)
        slots, most = len(requests) + 1, max(longest, positions)
        if slots > 1 and (slots > self.most or slots * most > _POSITIONS):
            return False
        self._reserve(slots, most)
        return True

    def _reserve(self, slots: int, positions: int) -> None:
        """Make room in all arrays: for as many rows as wait, else for twice as many as before, since growing copies."""
        room = len(self.logits)
        if slots > room:
            waiting = slots - 1 + sum(map(len, self._waiting.values()))
            room = min(max(slots, 2 * room, waiting), self.most, max(slots, _POSITIONS // positions))
            self.logits = _resize(self.logits, room)
            settings = self.narrowing
            self.narrowing = Narrowing(
                _resize(settings.temperature, room), _resize(settings.top_k, room), _resize(settings.top_p, room)
            )
        self.decoder.reserve(room, positions)

    def _pause(self, client: Hashable) -> None:
        """Let the last row of a client wait in front of its other requests."""
        slot = max(slot for slot, row in enumerate(self.rows) if row.client == client)
        paused = _Paused(self.rows[slot], self.decoder.take(slot, self.logits[slot]))
        self._forget(slot)
        self._waiting.setdefault(client, deque()).appendleft(paused)

    def _start(self, client: Hashable) -> None:
        """Continue the first that a client waits for, or read its prompt."""
        entry = self._waiting[client].popleft()
        if not self._waiting[client]:
            del self._waiting[client]
        if isinstance(entry, _Paused):
            self._place(entry.row, entry.state)
        else:
            self._reading.append((entry, client, self._read(entry)))
            if self._submit is None:
                self._join(*self._reading.pop())

    def _read(self, request: Reply) -> Future[Prefilled]:
        if self._last_read is None or not request.begins_as(self._last_read[0]):
            reading = (self._submit or _read_whole)(PromptReading(request.weights, self.shape, request.prompt))
            self._last_read = request, reading
        return self._last_read[1]

    def _join(self, request: Reply, client: Hashable, reading: Future[Prefilled]) -> None:
        """Begin a reply whose prompt has been read."""
        try:
            state = reading.result()
            if not np.isfinite(state.logits).all():
                raise NotFinite("the weights are not finite: nothing can be sampled from them")
            self._place(self._new_row(request, client), state)
        except Exception as error:
            self._ended.append((request, error))

    def _place(self, row: _Row, state: Prefilled) -> None:
        slot, params = self.decoder.put(state), row.request.params
        self.logits[slot] = state.logits
        self.narrowing.temperature[slot] = params.temperature
        self.narrowing.top_k[slot] = params.top_k
        self.narrowing.top_p[slot] = params.top_p
        self.rows.append(row)

    def _forget(self, slot: int) -> None:
        """Move the last row to a slot that the decoder has freed."""
        last = len(self.rows) - 1
        self.logits[slot] = self.logits[last]
        for setting in (self.narrowing.temperature, self.narrowing.top_k, self.narrowing.top_p):
            setting[slot] = setting[last]
        self.rows[slot] = self.rows[last]
        self.rows.pop()

    def _new_row(self, request: Reply, client: Hashable) -> _Row:
        language = request.params.language
        constraint = None if language is None else Constraint(language)
        stops = Stops(request.params.stop, self.tokenizer)
        return _Row(request, client, _stream(request).random(request.limit), stops, constraint)

    def _constrain(self, logits: Floats) -> Floats:
        """Return the logits with those of tokens that are not allowed removed; the same array where no row is constrained."""
        if not any(row.constraint for row in self.rows):
            return logits
        constrained = logits.copy()
        for slot, row in enumerate(self.rows):
            if row.constraint is None:
                continue
            try:
                allowed = row.constraint.find_mask(row.request.limit - len(row.tokens))
            except Exception as error:
                # Of this row alone.
                row.error = error
                continue
            constrained[slot, : len(allowed)][~allowed] = -np.inf
            constrained[slot, len(allowed) :] = -np.inf
        return constrained

    def _record(self, tokens: Integers, logprobs: Floats) -> None:
        chosen = logprobs[np.arange(len(tokens)), tokens].tolist()
        for slot, (row, token, logprob) in enumerate(zip(self.rows, tokens.tolist(), chosen, strict=True)):
            row.tokens.append(token)
            row.logprobs.append(logprob)
            if row.request.topk:
                best, values = most_probable(logprobs[slot : slot + 1], row.request.topk)
                row.topk.append((best[0], values[0]))
            try:
                row.follow()
            except Exception as error:
                row.error = row.error or error

    def _finish_if_complete(self, row: _Row) -> Sampled | Exception | None:
        if row.error is not None:
            return row.error
        text_kept = row.stops.text_before_end(row.tokens)
        if text_kept is None and not row.is_over:
            return None
        text = self.tokenizer.decode(row.tokens) if text_kept is None else text_kept
        reason: StopReason = "length" if text_kept is None else "stop"
        if not row.topk:
            return Sampled(row.tokens, row.logprobs, reason, text)
        best, values = (np.stack(column) for column in zip(*row.topk, strict=True))
        return Sampled(row.tokens, row.logprobs, reason, text, best, values)


def _request_of(entry: Reply | _Paused) -> Reply:
    return entry.row.request if isinstance(entry, _Paused) else entry


def _resize(values: NDArray[ScalarT], size: int) -> NDArray[ScalarT]:
    """Return the first values in an array of another length."""
    resized = np.zeros((size, *values.shape[1:]), values.dtype)
    resized[: len(values)] = values
    return resized


def _read_whole(reading: PromptReading) -> Future[Prefilled]:
    done: Future[Prefilled] = Future()
    try:
        while (row := reading.read_piece()) is None:
            pass
        done.set_result(row)
    except Exception as error:
        done.set_exception(error)
    return done


def _stream(request: Reply) -> np.random.Generator:
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
