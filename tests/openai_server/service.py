"""Dispatch of requests: behaviours, limits, queues, and the control endpoint."""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import answers
from .behaviour import Behaviour, behaving, from_query
from .counts import Counts

if TYPE_CHECKING:
    from .connection import Exchange

Headers = dict[str, str]
AT_A_TIME = 4
"""Answers that are sent between two looks for new requests."""


@dataclass(slots=True)
class Bucket:
    """Tokens that come at a rate, up to a burst."""

    tokens: float
    filled: float

    def take(self, rate: float, burst: float) -> bool:
        now = time.monotonic()
        self.tokens = min(burst, self.tokens + (now - self.filled) * rate)
        self.filled = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class Queue:
    """The slots of a model, and who waits for one."""

    occupied: int = 0
    waiting: deque[Exchange] = field(default_factory=deque)


class Service:
    """All that the connections of a server share."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.counts = Counts()
        self._started_with = self._default = behaviour
        self._models: dict[str, Behaviour] = {}
        self._buckets: dict[str, Bucket] = {}
        self.queues: defaultdict[str, Queue] = defaultdict(Queue)
        self.loop = asyncio.get_running_loop()
        self._turn = 0.0
        self._due: deque[Exchange] = deque()

    def let_finish(self, exchange: Exchange) -> None:
        """Answer soon: a few at a time, so that many answers due at one time do not keep new requests waiting."""
        self._due.append(exchange)
        if len(self._due) == 1:
            self._finish_some()

    def _finish_some(self) -> None:
        for _ in range(min(AT_A_TIME, len(self._due))):
            self._due[0].finish()
            self._due.popleft()
        if self._due:
            self.loop.call_soon(self._finish_some)

    def now(self) -> float:
        """Return the time of the loop's last poll: requests that wait since then are late already."""
        if not self._turn:
            self._turn = self.loop.time()
            self.loop.call_soon(self._over)
        return self._turn

    def _over(self) -> None:
        self._turn = 0.0

    def behaviour(self, model: str, header: str) -> Behaviour:
        """Raises ValueError for a header or a model's name that says what there is not."""
        name, _, query = model.partition("?")
        model = self._models.get(name, self._default)
        if query:
            model = from_query(model, query)
        return from_query(model, header) if header else model

    def refusal(
        self, behaviour: Behaviour, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, Any, Headers] | None:
        """Status, answer and headers for who asks wrongly or too often."""
        if behaviour.key and headers.get("authorization") != f"Bearer {behaviour.key}":
            message = f"Incorrect API key provided: {headers.get('authorization', '').removeprefix('Bearer ')}"
            return 401, answers.error(message, kind="authentication_error", code="invalid_api_key"), {}
        if behaviour.context and len(answers.prompt_of(body).split()) > behaviour.context:
            message = f"This model's maximum context length is {behaviour.context} tokens"
            return 400, answers.error(message, kind="invalid_request_error", code="context_length_exceeded"), {}
        if behaviour.answers and answers.prompt_of(body) not in dict(behaviour.answers):
            message = f"there is no answer to {answers.prompt_of(body)!r}"
            return 400, answers.error(message, kind="invalid_request_error"), {}
        if behaviour.rate and not self._bucket(behaviour, body).take(behaviour.rate, burst(behaviour)):
            return 429, failure(behaviour, 429), self.limits(behaviour, body) | when(behaviour)
        return None

    def limits(self, behaviour: Behaviour, body: Mapping[str, Any]) -> Headers:
        """Return the headers of an answer that state the limit."""
        if not behaviour.rate or behaviour.quiet:
            return {}
        left = max(0, int(self._bucket(behaviour, body).tokens))
        return {
            "x-ratelimit-limit-requests": f"{behaviour.rate * 60:.0f}",
            "x-ratelimit-remaining-requests": str(left),
            "x-ratelimit-reset-requests": f"{max(0.0, (1 - left) / behaviour.rate):.3f}s",
        }

    def control(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """The control endpoint: status and answer."""
        if method == "DELETE":
            now = self.counts
            self.counts = Counts(concurrent=now.concurrent, open_connections=now.open_connections)
            self._models.clear()
            self._buckets.clear()
            self._default = self._started_with
            return 200, {}
        if method == "GET":
            return 200, self.counts.told_last() if path.endswith("/requests") else self.counts.as_json()
        settings = json.loads(body)
        model = settings.pop("model", None)
        try:
            if model is None:
                self._default = behaving(self._default, settings)
            else:
                self._models[model] = behaving(self._started_with, settings)
        except ValueError as error:
            return 400, answers.error(str(error))
        return 200, {}

    def _bucket(self, behaviour: Behaviour, body: Mapping[str, Any]) -> Bucket:
        name = str(body.get("model"))
        if name not in self._buckets:
            self._buckets[name] = Bucket(burst(behaviour), time.monotonic())
        return self._buckets[name]


def burst(behaviour: Behaviour) -> float:
    return behaviour.burst or max(1.0, behaviour.rate)


def failure(behaviour: Behaviour, status: int) -> Any:
    """The body of an error."""
    kind = "rate_limit_error" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    return answers.error(behaviour.message or f"scripted {status}", kind=kind, code=behaviour.code or None)


def when(behaviour: Behaviour) -> Headers:
    """Headers that say when to come again."""
    kind, _, value = behaviour.retry_after.rpartition(":")
    if not value:
        return {}
    if kind == "date":
        return {"retry-after": email.utils.formatdate(time.time() + float(value), usegmt=True)}
    return {{"ms": "retry-after-ms", "reset": "x-ratelimit-reset-requests"}.get(kind, "retry-after"): value}
