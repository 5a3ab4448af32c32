"""How many requests a second: a bucket of turns that fills at a rate, and a rate that is learned from refusals."""

from __future__ import annotations

import math

from pytest_crucible.backends.limiting.ceiling import Ceiling
from pytest_crucible.backends.limiting.descent import Descent

PLATEAU = 100.0
"""Requests that are sent below the last limit before more is tried: a refusal in about 200 is what staying at the limit costs."""
PRICE = 5.0
"""Where a refusal comes with a pause, so many pauses are spent below the limit before the next one is risked."""
LEAST_CUT, MOST_CUT = 0.03, 0.5
PRIOR = 5.0
"""A refusal among few requests says less about the rate than one among many: so many are thought to have been accepted."""
SLOWEST = 1 / 15
"""Requests a second that are tried where everything is refused."""
SLACK_S = 0.01
"""How late a turn may come without being lost: loops wake up late."""
YOUNG_S = 0.25
"""What was sent in less time than this says little about a rate."""
ROUNDING = 1e-6
DOUBLING = math.log(2)
"""While a limit is searched for, the rate doubles in a second."""


class Pacing:
    """The rate at which requests may start; infinite until a request was refused, or a limit was set or told."""

    __slots__ = (
        "ceiling",
        "descent",
        "filled_at",
        "most",
        "pause_s",
        "rate",
        "sent",
        "sent_at",
        "since",
        "told",
        "turns",
    )

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        """Requests a second that the user allows."""
        self.told = math.inf
        """Requests a second that the server says it allows."""
        self.rate = most
        self.ceiling = Ceiling()
        self.descent = Descent()
        self.turns = 1.0
        self.filled_at = 0.0
        self.sent = 0.0
        """Requests since the last cut; while the rate is infinite those of about the last second."""
        self.sent_at = -math.inf
        self.since = math.inf
        """The last cut, or the first request."""
        self.pause_s = 0.0
        """The pause that came with the last refusal."""

    def delay(self, now: float, paused_until: float) -> float:
        """Seconds until there is a turn."""
        if self.rate == math.inf:
            return 0.0
        self._fill(now, paused_until)
        return 0.0 if self.turns >= 1 - ROUNDING else (1 - self.turns) / self.rate

    def take(self, now: float) -> bool:
        """Send one; whether the next has to wait for it, so that its acceptance shows what the server bears."""
        self.descent.send()
        if self.rate < math.inf:
            self.sent += 1
            self.turns -= 1
            return self.turns < 1
        if self.sent_at < now:
            self.since = min(self.since, now)
            self.sent *= math.exp(self.sent_at - now)
            self.sent_at = now
        self.sent += 1
        return False

    def accept(self, paced: bool) -> None:
        self.ceiling.shown = 1.0
        if not paced or self.ceiling.limit == math.inf:
            return
        plateau = self._plateau()
        self.ceiling.grow(DOUBLING * self.ceiling.limit / self.rate, plateau)
        self._follow(plateau)
        if self.rate > 1.1 * self.descent.mark:
            self.descent.begin(self.rate)

    def refuse(self, now: float, paused_until: float, sent_at: float, pause_s: float) -> None:
        """Slow down. Requests that were sent before the last cut say nothing about the rate since."""
        self.pause_s = pause_s
        if sent_at < self.ceiling.cut_at:
            return
        before, accepted = self._before(now)
        if not self.descent.mark:
            self.descent.begin(before)
        if self.descent.in_vain(before):
            self._go_back(now)
        elif not self.descent.bearable:
            self._fill(now, paused_until)
            if self.rate == math.inf:
                self.turns = 0.0
            share = max(MOST_CUT, min(1 - LEAST_CUT, accepted))
            self.ceiling.cut(now, before, max(SLOWEST, before * share))
            self._begin(now)

    def allow(self, most: float) -> None:
        """The user allows no more requests a second than these, either."""
        self.most = min(self.most, most)
        self._follow(self._plateau())

    def hear(self, told: float) -> None:
        """The server says how many requests a second it allows."""
        self.told = told
        self._follow(self._plateau())

    def _before(self, now: float) -> tuple[float, float]:
        """The rate until now, and the share of what it would have sent that was accepted (pauses count: nothing was sent)."""
        if self.ceiling.limit == math.inf:
            lately = 1 - math.exp(-max(YOUNG_S, now - self.since))
            return min(self.rate, max(1.0, self.sent / lately)), 1.0
        return self.rate, (self.sent - 1 + PRIOR) / (self.rate * (now - self.since) + PRIOR)

    def _go_back(self, now: float) -> None:
        self.ceiling.limit, self.ceiling.age = self.descent.top, self._plateau()
        self.descent.begin(self.descent.top)
        self._begin(now)

    def _begin(self, now: float) -> None:
        self.sent, self.since = 0.0, now
        self._follow(self._plateau())

    def _follow(self, plateau: float) -> None:
        self.rate = min(self.most, self.told, self.ceiling.value(plateau))

    def _plateau(self) -> float:
        if not self.pause_s or self.ceiling.base == math.inf:
            return PLATEAU
        return max(PLATEAU, PRICE * self.pause_s * self.ceiling.base)

    def _fill(self, now: float, paused_until: float) -> None:
        """Turns come with time, but not while all are to pause, and none are saved up."""
        if self.rate < math.inf:
            passed = max(0.0, now - max(self.filled_at, paused_until))
            self.turns = min(1 + self.rate * SLACK_S, self.turns + passed * self.rate)
        self.filled_at = now
