"""How many requests at a time: as many as are asked for, until a server refuses the last ones or lets them hang."""

from __future__ import annotations

import math

from pytest_crucible.backends.limiting.ceiling import Ceiling

PLATEAU, ROUNDS = 100.0, 5.0
"""Requests, or windows full of them, that are sent below the last limit before more are tried at a time."""
IN_A_ROW = 3
"""Refusals that all came when more was under way than was ever accepted: it is their number that is refused, not their rate."""
FADING = 1 / 128
STRAINED, HELD = 0.2, 0.05
"""Shares of overload failures among recent requests: from the one on fewer are asked at a time, from the other on no more; below
that they may be chance."""
LATELY = 1 / 50


class Window:
    """The number of requests that may be under way; infinite until the server shows that it is overloaded."""

    __slots__ = ("before", "beyond", "ceiling", "held", "most", "most_accepted", "ordinary", "size", "spares", "strain")

    def __init__(self, most: float = math.inf, ordinary: float = math.inf) -> None:
        self.most = most
        """Requests at a time that the user allows for this server."""
        self.ordinary = ordinary
        """Requests at a time that are asked for by those whose turn it is; spare ones come on top of them."""
        self.size = most
        self.ceiling = Ceiling()
        self.held = 0.0
        self.spares = 0.0
        self.most_accepted = 0.0
        """The most that were lately under way when one was accepted."""
        self.beyond = 0.0
        self.strain = 0.0
        self.before = math.inf

    def allow(self, most: float) -> None:
        """The user allows no more requests at a time than these, either."""
        self.most = min(self.most, most)
        self._follow()

    def is_full(self, *, spare: bool) -> bool:
        return self.held >= self.size or (not spare and self.held - self.spares >= self.ordinary)

    def take(self, *, spare: bool) -> float:
        """One more is under way; how many are, with it."""
        self.held += 1
        self.spares += spare
        return self.held

    def leave(self, *, spare: bool) -> None:
        self.held -= 1
        self.spares -= spare

    def accept(self, crowd: float) -> None:
        self.most_accepted = max(crowd, self.most_accepted * (1 - FADING))
        self.strain *= 1 - LATELY
        self.ceiling.shown = 1.0
        if self.ceiling.limit < math.inf and crowd >= self.size - 1:
            self.ceiling.grow(1.0, self._plateau())
            self._follow()

    def refuse(self, now: float, sent_at: float, crowd: float) -> bool:
        """Whether it is their number that is refused."""
        if sent_at < self.ceiling.cut_at:
            return False
        is_beyond = self.most_accepted > 0 and crowd > self.most_accepted + 0.5
        self.beyond = self.beyond + 1 if is_beyond else 0.0
        accepted = max(1.0, math.floor(self.most_accepted), self.held)
        if self.beyond < IN_A_ROW or accepted >= self.size:
            return False
        self._cut(now, accepted)
        return True

    def overload(self, now: float, sent_at: float) -> None:
        """A server says that it is overloaded, or lets a request hang: with many of them, ask up to half as many at a time.

        What was sent before the last cut can deepen that cut and makes no further one.
        """
        self.strain += LATELY * (1 - self.strain)
        if sent_at >= self.ceiling.cut_at:
            self.before = min(self.size, self.held + 1)
        to = max(1.0, math.floor(self.before * (1 - self.strain / 2)))
        if self.strain > STRAINED and to < self.size:
            self._cut(now, to)
        elif self.strain > HELD:
            self.ceiling.hold(self._plateau())

    def _cut(self, now: float, to: float) -> None:
        self.ceiling.cut(now, self.size, to)
        self._follow()

    def _plateau(self) -> float:
        return PLATEAU if self.ceiling.base == math.inf else max(PLATEAU, ROUNDS * self.ceiling.base)

    def _follow(self) -> None:
        value = self.ceiling.value(self._plateau())
        self.size = self.most if value == math.inf else min(self.most, max(1.0, math.floor(value + 0.5)))
