"""A server that is down stops the experiment instead of losing it sample by sample; one that restarts is waited for."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pytest_crucible.backends.patience import not_counted
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.wrapping import Wrapper
from pytest_crucible.errors import BackendError, Refused, Retryable, Spent
from pytest_crucible.records import Reply, Request

IN_A_ROW = 10
"""Attempts that fail one after the other, of whatever arm, before a server can be given up."""
PATIENCE_S = 75.0
"""How long a server that has answered may answer nothing: long enough for it to be restarted."""
UNSEEN_S = 30.0
"""The same for one that has never answered."""
DOUBTFUL, DOUBTFUL_S = 3, 0.5
"""After so many failures in a row and so long without an answer, one request at a time is asked, to see whether it is back."""
PROBE_S = 1.0
"""Time between two of them."""
_draws = random.Random()
"""Of its own, so that nobody's seed is disturbed."""


class Circuit:
    """Whether a server is up, as far as those who ask it can tell; one for all of them.

    An answer is whatever shows that it works, an error that is the request's own included. A 429 shows that it is there,
    so that nothing is probed; but one that answers nothing else is given up, too.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._answered_at = -math.inf
        self._failures = 0
        self._doubts = 0
        self._since = 0.0
        """When the row began; a request that got no answer in time was sent before."""
        self._probing = False
        self._probed_at = -math.inf
        self._given_up = ""

    def check(self) -> None:
        """Raises Refused when the server is given up."""
        if self._given_up:
            raise Refused(self._given_up)

    def answer(self, now: float) -> None:
        self._answered_at = now
        self._failures = self._doubts = 0

    def fail(self, error: Retryable, sent_at: float, now: float) -> None:
        """Raises Refused when that was one too many."""
        if not self._failures:
            self._since = max(self._answered_at, sent_at if error.kind == "timeout" else now)
        self._failures += 1
        self._doubts = 0 if error.kind == "429" else self._doubts + 1
        silent_s = now - self._since
        if self._failures >= IN_A_ROW and silent_s >= (PATIENCE_S if self._answered_at > -math.inf else UNSEEN_S):
            self._given_up = self._sentence(error, silent_s)
        self.check()

    @property
    def name(self) -> str:
        """What sentences call the server."""
        return self._name

    def is_doubtful(self, now: float) -> bool:
        return self._doubts >= DOUBTFUL and now - self._since >= DOUBTFUL_S

    async def turn_to_probe(self) -> bool:
        """Wait until nobody else probes; False when nothing is doubtful any more. Raises Refused when the server is given up."""
        loop = asyncio.get_running_loop()
        with not_counted():
            while self.is_doubtful(loop.time()):
                self.check()
                if not self._probing and loop.time() - self._probed_at >= PROBE_S:
                    return True
                await asyncio.sleep(_draws.uniform(0.2, 0.5))  # not all at once
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
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - silent_s))
        return (
            f"{self._name} has answered nothing since {since} ({silent_s:.0f} s, {self._failures} requests failed, the last: "
            f"{error}): nothing more is asked; --crucible-resume goes on when it is back"
        )


class Breaker(Wrapper):
    """Sees each attempt. While the server is in doubt, attempts wait here instead of being used up."""

    def __init__(self, inner: Backend, circuit: Circuit) -> None:
        super().__init__(inner)
        self._circuit = circuit

    async def generate(self, request: Request) -> Reply:
        """Raises Refused when the server is given up."""
        circuit = self._circuit
        circuit.check()
        while circuit.is_doubtful(asyncio.get_running_loop().time()) and await circuit.turn_to_probe():
            with circuit.probing(), suppress(Retryable):
                return await self._ask(request)
        return await self._ask(request)

    async def _ask(self, request: Request) -> Reply:
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        try:
            reply = await self.inner.generate(request)
        except Retryable as error:
            self._circuit.fail(error, sent_at, loop.time())
            raise
        except Spent:  # nobody was asked
            raise
        except BackendError:
            self._circuit.answer(loop.time())
            raise
        self._circuit.answer(loop.time())
        return reply


class Circuits:
    """By server."""

    def __init__(self) -> None:
        self._circuits: dict[str, Circuit] = {}

    def of(self, server: str, name: str) -> Circuit:
        """`name` is what sentences call it."""
        return self._circuits.setdefault(server, Circuit(name))

    def doubtful(self, now: float) -> str:
        """The name of a server that does not answer at this moment; empty where all do."""
        return next((one.name for one in tuple(self._circuits.values()) if one.is_doubtful(now)), "")
