"""A learned limit that follows CUBIC (RFC 9438).

It is cut when the server refuses, stays long near the last limit, then grows ever faster beyond it.
"""

from __future__ import annotations

import math

# Steepness of the growth beyond the last limit: at twice the plateau the limit is 6 % higher.
RISE = 0.06
# How far below the limit the value starts after a cut: the limit is the largest value that was not refused.
DIP = 0.02
# A limit exceeded by this factor without refusal was wrong: the next one is searched for from there.
OVERSHOOT = 1.5


class CubicLimit:
    """A limit that is learned: `value(plateau)` is a cubic in the number of acceptances since the last cut.

    limit x (1 - depth (1 - age / plateau)^3) until `age` is `plateau`, and from there limit x (1 + RISE (age / plateau - 1)^3).
    A cut is soon recovered, most of the time is spent near the limit, and a limit that was lifted is found.
    Until two limits in a row agree, growth is exponential instead.

    >>> cubic = CubicLimit()
    >>> cubic.value(100)
    inf
    >>> cubic.cut(now=1.0, before=64, to=50)
    >>> cubic.value(100)
    49.0
    """

    __slots__ = ("accepted_since", "age", "base", "cut_at", "depth", "limit", "searching")

    def __init__(self) -> None:
        self.limit = math.inf
        self.base = math.inf
        """The limit after the last cut."""
        self.depth = 0.0
        self.age = 0.0
        self.cut_at = -math.inf
        self.searching = 1.0
        self.accepted_since = 0.0
        """Whether a request was accepted since the last cut."""

    def value(self, plateau: float) -> float:
        if self.limit == math.inf:
            return math.inf
        beyond = self.age / plateau - 1
        return self.limit * (1 + (self.depth if beyond < 0 else RISE) * beyond * beyond * beyond)

    def grow(self, step: float, plateau: float) -> None:
        """Record a request accepted at the limit. `step` is added while the limit is searched for."""
        if self.searching:
            self.limit += step
            self.age = plateau
        else:
            self.age += 1

    def hold(self, plateau: float) -> None:
        """Take the present value as the limit, if it is above the last one."""
        if self.age > plateau:
            self.limit = self.base = self.value(plateau)
            self.age = 0.0
            self.depth = 0.0

    def lift(self) -> None:
        """Forget the limit."""
        self.limit = self.base = math.inf
        self.age = self.depth = 0.0
        self.searching = 1.0

    def cut(self, now: float, before: float, to: float) -> None:
        """Record a refusal at rate `before`: go down to `to`.

        Repeated cuts without an acceptance in between are one collapse, after which the value returns to the old limit.
        """
        if self.limit < math.inf and not self.accepted_since:
            self.depth = 1 - to / self.limit
        else:
            if self.limit < math.inf:
                # The first cut below a limit that was far exceeded starts a new search, any other one ends it.
                self.searching = float(not self.searching and before >= OVERSHOOT * self.base + 1)
            self.limit = self.base = to
            self.depth = DIP
        self.age = 0.0
        self.accepted_since = 0.0
        self.cut_at = now
