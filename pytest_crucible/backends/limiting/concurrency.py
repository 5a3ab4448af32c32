"""The number of concurrent requests: not limited until the server refuses the latest ones or lets them hang."""

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


# Requests, or windows full of them, sent just below the last limit before a larger number is tried.
PLATEAU, ROUNDS = 100.0, 5.0
# Refusals, all above the largest number ever accepted, after which concurrency is taken for the cause, not the rate.
BEYOND_REFUSALS = 3
# About the last 100 acceptances: long enough to bridge a quiet moment, short enough to follow a server that was resized.
FORGETTING = 1 / 128
# Shares of overload failures among recent requests: above STRAINED the window shrinks, above HELD it stops growing.
# Lower shares may be chance.
STRAINED, HELD = 0.2, 0.05
# The weight of the latest request in the moving share of overload failures: it follows about the last 50.
RECENT = 1 / 50


class Window:
    """The number of requests that may be in flight; infinite until the server shows that it is overloaded."""

    __slots__ = ("before", "beyond", "cubic", "held", "most", "most_accepted", "ordinary", "size", "spares", "strain")

    def __init__(self, most: float = math.inf, ordinary: float = math.inf) -> None:
        self.most = most
        """Concurrency that the user allows for this server."""
        self.ordinary = ordinary
        """Concurrency of regular requests; spare requests (hedges) come on top."""
        self.size = most
        self.cubic = CubicLimit()
        self.held = 0.0
        self.spares = 0.0
        self.most_accepted = 0.0
        """The largest number recently in flight when a request was accepted."""
        self.beyond = 0.0
        self.strain = 0.0
        self.before = math.inf

    def allow(self, most: float) -> None:
        """Apply another user limit; the smallest one holds."""
        self.most = min(self.most, most)
        self._update()

    def is_full(self, *, spare: bool) -> bool:
        return self.held >= self.size or (not spare and self.held - self.spares >= self.ordinary)

    def take(self, *, spare: bool) -> float:
        """Record that a request was sent; return how many are in flight, with it."""
        self.held += 1
        self.spares += spare
        return self.held

    def leave(self, *, spare: bool) -> None:
        self.held -= 1
        self.spares -= spare

    def accept(self, crowd: float) -> None:
        self.most_accepted = max(crowd, self.most_accepted * (1 - FORGETTING))
        self.strain *= 1 - RECENT
        self.cubic.accepted_since = 1.0
        if self.cubic.limit < math.inf and crowd >= self.size - 1:
            self.cubic.grow(1.0, self._plateau())
            self._update()

    def is_cause(self, sent_at: float, crowd: float) -> bool:
        """Record a refusal; return whether concurrency is its cause."""
        if sent_at < self.cubic.cut_at:
            return False
        # Half a request more than ever accepted: the maximum fades, so it is not a whole number.
        is_beyond = self.most_accepted > 0 and crowd > self.most_accepted + 0.5
        self.beyond = self.beyond + 1 if is_beyond else 0.0
        return self.beyond >= BEYOND_REFUSALS and self._accepted < self.size

    def cut_to_accepted(self, now: float) -> None:
        """Limit the window to the largest number that was accepted."""
        self._cut(now, self._accepted)

    @property
    def _accepted(self) -> float:
        return max(1.0, math.floor(self.most_accepted), self.held)

    def overload(self, now: float, sent_at: float) -> None:
        """Record an overload error or a timeout: if there are many, shrink the window by up to a half.

        A request sent before the last cut can deepen that cut, but not cause another one.
        """
        self.strain += RECENT * (1 - self.strain)
        if sent_at >= self.cubic.cut_at:
            # The window cannot have been larger than what was in flight: unused room proves nothing.
            self.before = min(self.size, self.held + 1)
        to = max(1.0, math.floor(self.before * (1 - self.strain / 2)))
        if self.strain > STRAINED and to < self.size:
            self._cut(now, to)
        elif self.strain > HELD:
            self.cubic.hold(self._plateau())

    def _cut(self, now: float, to: float) -> None:
        self.cubic.cut(now, self.size, to)
        self._update()

    def _plateau(self) -> float:
        return PLATEAU if self.cubic.base == math.inf else max(PLATEAU, ROUNDS * self.cubic.base)

    def _update(self) -> None:
        value = self.cubic.value(self._plateau())
        self.size = self.most if value == math.inf else min(self.most, max(1.0, math.floor(value + 0.5)))
