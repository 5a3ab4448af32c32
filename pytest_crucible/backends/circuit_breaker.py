"""A circuit breaker for each server.

A server that is down stops the experiment instead of losing it sample by sample; a server that restarts is waited for. A few
requests that are never answered, while others are, stop nothing: each is retried, and its sample is lost.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from pytest_crucible.backends.deadlines import note_answer, note_request, paused_clock
from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, Spent

Key: TypeAlias = tuple[object, ...]

# Kinds of failures in which no model answered in time; a gateway in front of the server says so by a status.
SILENT = frozenset({"timeout", "504", "524"})


def request_key(request: Request) -> Key:
    """Return what the attempts of one request have in common, as other requests of its sample do."""
    return request.experiment, request.arm, request.member, request.sample, request.repeat, request.draw


class SilentRequests:
    """The requests of one server that had no answer since the server last answered any."""

    def __init__(self) -> None:
        self._answers = 0
        self.in_flight = self._peak = 0
        self._first_sent: dict[Key, int] = {}
        """Answers of the server when a request was first sent, until it is answered itself."""
        self._silent: set[Key] = set()
        self.attempts = 0

    def __len__(self) -> int:
        return len(self._silent)

    def send(self, key: Key) -> None:
        self._first_sent.setdefault(key, self._answers)
        self.in_flight += 1
        self._peak = max(self._peak, self.in_flight)

    def answer(self, key: Key) -> None:
        """Record an answer, which shows that the server works."""
        self._answers += 1
        self._first_sent.pop(key, None)
        self._silent.clear()
        self.attempts = 0

    def add(self, key: Key) -> None:
        """Record an attempt without an answer, unless it shows nothing about the server.

        If more answers came since the request was first sent than requests were ever in flight, later ones have overtaken it: the
        server was well, and the silence is that of this request alone.
        """
        if self._answers - self._first_sent.get(key, self._answers) <= self._peak:
            self._silent.add(key)
            self.attempts += 1


# Consecutive failed attempts, of any arm, before a server is given up.
# Ten failures alone can be one burst of a busy server, so the time without an answer must be long as well.
MIN_FAILURES = 10
# Requests, not attempts, to which a server must be silent before it is in doubt: one prompt that hangs says nothing about others.
# One that has answered may hang at some; one that has not is soon found out, because few samples in a hundred hang.
MIN_SILENT, MIN_SILENT_AT_FIRST = 10, 3
# Longest time without an answer from a server that has answered before: long enough to restart it.
MAX_SILENCE_S = 75.0
# The same for a server that has never answered.
FIRST_ANSWER_S = 30.0
# Consecutive failures, and seconds without an answer, after which requests wait for a probe.
# Every attempt that meets a server during its restart would be used up: after a few failures only one probe at a time is sent.
DOUBT_AFTER, DOUBT_AFTER_S = 3, 0.5
# Failures in a row are chance on a server that fails often, until they are rarer than this.
CHANCE = 1e-3
# Attempts over which the share of failures is averaged.
MEMORY = 64
# Seconds between two probes.
PROBE_S = 1.0
# Kinds of failures in which the server sent nothing. All others are responses, although no reply could be read from them.
_SENT_NOTHING = ("connection", "timeout")
# A generator of its own: the global one may have been seeded by the user.
_draws = random.Random()


class Circuit:
    """State of one server, shared by all backends that use it.

    Any answer shows that the server works, including an error that the request caused. A 429 shows that it is up, so no probe
    is sent; but a server that answers nothing but 429 is given up, too.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._answered_at = -math.inf
        self._failures = 0
        self._errors = 0
        self._responses = 0
        """Failures of this streak that were responses, such as a 429."""
        self._silent_since = 0.0
        """When the failures began; a request that timed out counts from when it was sent."""
        self._share = 0.0
        """The share of failures before this streak, without 429s."""
        self._silent = SilentRequests()
        self.answered_before = False
        """Whether the server has answered in the run that is resumed."""
        self._probing = False
        self._probed_at = -math.inf
        self._given_up = ""

    @property
    def has_answered(self) -> bool:
        """Return whether the server has answered any request, in this run or in the one that is resumed."""
        return self.answered_before or self._answered_at > -math.inf

    def check(self) -> None:
        """Raise Refused when the server is given up."""
        if self._given_up:
            raise Refused(self._given_up)

    def begin(self, key: Key) -> None:
        """Count an attempt as in flight, until `end`."""
        self._silent.send(key)

    def end(self) -> None:
        self._silent.in_flight -= 1

    def answer(self, key: Key, now: float) -> None:
        self._answered_at = now
        attempts = self._errors + 1
        self._share += (self._errors / attempts - self._share) * min(1.0, attempts / MEMORY)
        self._silent.answer(key)
        self._failures = self._errors = self._responses = 0

    def fail(self, error: Retryable, key: Key, sent_at: float, now: float) -> None:
        """Record a failed attempt. Raises Refused if the server is given up."""
        # A timeout shows silence since the request was sent, not since it expired.
        if not (self._failures or self._silent):
            self._silent_since = max(self._answered_at, sent_at if error.kind == "timeout" else now)
        if error.kind in SILENT:
            self._silent.add(key)
            if not self._is_silent:
                return
        else:
            self._failures += 1
        self._responses += error.kind not in _SENT_NOTHING
        # A 429 is an answer: the server is up, so there is nothing to probe for.
        self._errors = 0 if error.kind == "429" else self._errors + 1
        silent_s = now - self._silent_since
        # Both conditions: ten failures can happen within a second, and a long silence can be a single slow request.
        if self._all_failures >= MIN_FAILURES and silent_s >= (
            MAX_SILENCE_S if self._answered_at > -math.inf else FIRST_ANSWER_S
        ):
            self._given_up = self._sentence(error, silent_s)
        self.check()

    @property
    def _is_silent(self) -> bool:
        return len(self._silent) >= (MIN_SILENT if self.has_answered else MIN_SILENT_AT_FIRST)

    @property
    def _all_failures(self) -> int:
        return self._failures + self._silent.attempts * self._is_silent

    def is_doubtful(self, now: float) -> bool:
        if self._errors < DOUBT_AFTER:
            return False
        return self._share**self._errors < CHANCE and now - self._silent_since >= DOUBT_AFTER_S

    async def wait_to_probe(self) -> bool:
        """Wait until this request may be the probe; False if the server has answered since. Raises Refused."""
        loop = asyncio.get_running_loop()
        with paused_clock():
            while self.is_doubtful(loop.time()):
                self.check()
                if not self._probing and loop.time() - self._probed_at >= PROBE_S:
                    return True
                # Random pauses, so that waiting requests do not wake all at once.
                await asyncio.sleep(_draws.uniform(0.2, 0.5))
        return False

    @contextmanager
    def probing(self) -> Iterator[None]:
        self._probing = True
        try:
            yield
        finally:
            self._probing = False
            self._probed_at = asyncio.get_running_loop().time()

    def _sentence(self, error: Retryable, silent_s: float) -> str:
        facts = f"{silent_s:.0f} s, {self._all_failures} requests failed, the last: {error}"
        since = ""
        if self._answered_at > -math.inf:
            since = f" since {time.strftime('%H:%M:%S', time.localtime(time.time() - silent_s))}"
        if self.answered_before:
            since = since or " in this run"
        if self._responses:
            is_limit = error.kind == "429"
            advice = (
                "its limit or quota is used up: lower the adapter's limit or wait" if is_limit else "look into its log"
            )
            # It did respond, so its address is right, and "has not answered" would send the user the wrong way.
            return f"{self.name} has sent no reply{since}, only errors ({facts}): {_NO_MORE}; {advice}, then {_RESUME}"
        if since:
            return f"{self.name} has not answered{since} ({facts}): {_NO_MORE}; {_RESUME} when it is back"
        return f"{self.name} has never answered ({facts}): {_NO_MORE}; check its URL, and that it runs"


_NO_MORE, _RESUME = "no more requests are sent", "resume with --crucible-resume"


class CircuitBreaker(Wrapper):
    """Records each attempt. While the server is in doubt, attempts wait here instead of being used up."""

    def __init__(self, inner: Backend, circuit: Circuit, *, is_remote: bool = True) -> None:
        """`is_remote` is False for a model in this process, whose time is the sample's own."""
        super().__init__(inner)
        self.circuit = circuit
        self._is_remote = is_remote

    async def generate(self, request: Request) -> Reply:
        """Raises Refused if the server is given up."""
        loop, circuit = asyncio.get_running_loop(), self.circuit
        circuit.check()
        # One request probes; when it is answered, those that wait here go on together.
        while circuit.is_doubtful(loop.time()) and await circuit.wait_to_probe():
            with circuit.probing(), suppress(Retryable):
                return await self._send(request, loop)
        return await self._send(request, loop)

    async def _send(self, request: Request, loop: asyncio.AbstractEventLoop) -> Reply:
        circuit, key = self.circuit, request_key(request)
        sent_at = loop.time()
        if self._is_remote:
            note_request(circuit)
        try:
            circuit.begin(key)
            try:
                reply = await self.inner.generate(request)
            finally:
                circuit.end()
        except Retryable as error:
            circuit.fail(error, key, sent_at, loop.time())
            raise
        except BackendError as error:
            # Any other error is an answer of the server, which is therefore up; Spent: no request was sent.
            if not isinstance(error, Spent):
                note_answer()
                circuit.answer(key, loop.time())
            raise
        note_answer()
        circuit.answer(key, loop.time())
        return reply


def note_earlier_answers(backend: Backend) -> None:
    """Record that the server of a backend has answered in the run that is resumed."""
    while isinstance(backend, Wrapper):
        if isinstance(backend, CircuitBreaker):
            backend.circuit.answered_before = True
        backend = backend.inner


class Circuits:
    def __init__(self) -> None:
        self.circuits: dict[str, Circuit] = {}

    def of(self, server: str, name: str) -> Circuit:
        """Return the circuit of a server; `name` stands in messages."""
        return self.circuits.setdefault(server, Circuit(name))

    def doubtful(self, now: float) -> str:
        """Return the name of a server that does not answer now; empty if all do."""
        return next((circuit.name for circuit in tuple(self.circuits.values()) if circuit.is_doubtful(now)), "")
