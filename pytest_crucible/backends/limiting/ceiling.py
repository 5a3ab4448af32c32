"""How much a server bears, as it has shown: cut when it refuses, long near the last limit, then ever faster beyond it."""

from __future__ import annotations

import math

RISE = 0.06
"""How steeply it grows beyond the last limit."""
DIP = 0.02
"""How far below the limit it goes on after a cut."""
OVERSHOT = 1.5
"""A limit that was passed so far was none: the next one is searched for from there."""


class Ceiling:
    """A limit that is learned: `value(plateau)` follows a cubic in the number of acceptances since the last cut (CUBIC, RFC 9438).

    limit x (1 - depth (1 - age / plateau)^3) until `age` is `plateau`, and from there limit x (1 + RISE (age / plateau - 1)^3).
    So what is lost comes back soon, most of the time is spent near the limit, and a limit that was lifted is found.
    Until the limit was met twice without much change in between, growth is exponential instead.

    >>> ceiling = Ceiling()
    >>> ceiling.value(100)
    inf
    >>> ceiling.cut(now=1.0, before=64, to=50)
    >>> ceiling.value(100)
    49.0
    """

    __slots__ = ("age", "base", "cut_at", "depth", "limit", "searching", "shown")

    def __init__(self) -> None:
        self.limit = math.inf
        self.base = math.inf
        """The limit as the last cut left it."""
        self.depth = 0.0
        self.age = 0.0
        self.cut_at = -math.inf
        self.searching = 1.0
        self.shown = 0.0
        """Whether anything was accepted since the last cut."""

    def value(self, plateau: float) -> float:
        if self.limit == math.inf:
            return math.inf
        beyond = self.age / plateau - 1
        return self.limit * (1 + (self.depth if beyond < 0 else RISE) * beyond * beyond * beyond)

    def grow(self, step: float, plateau: float) -> None:
        """One request more was accepted at the limit. `step` is what is added while searching."""
        if self.searching:
            self.limit += step
            self.age = plateau
        else:
            self.age += 1

    def hold(self, plateau: float) -> None:
        """What is reached beyond the limit is the limit for now."""
        if self.age > plateau:
            self.limit = self.base = self.value(plateau)
            self.age = 0.0
            self.depth = 0.0

    def cut(self, now: float, before: float, to: float) -> None:
        """Refused. What is cut again before anything was accepted is one collapse, after which the old limit is gone back to."""
        if self.limit < math.inf and not self.shown:
            self.depth = 1 - to / self.limit
        else:
            if self.limit < math.inf:
                self.searching = float(not self.searching and before >= OVERSHOT * self.base + 1)
            self.limit = self.base = to
            self.depth = DIP
        self.age = 0.0
        self.shown = 0.0
        self.cut_at = now
