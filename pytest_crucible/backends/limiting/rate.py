"""The number of requests per second: a token bucket whose rate is learned from refusals, less those that are chance."""

from __future__ import annotations

import math
from dataclasses import field

from pytest_crucible.quick_dataclass import dataclass

# Steepness of the growth beyond the last limit: at twice the plateau the limit is 6 % higher.
RISE = 0.06
# How far below the limit the value starts after a cut: the limit is the largest value that was not refused.
DIP = 0.02
# A limit exceeded by this factor without refusal was wrong: the next one is searched for from there.
OVERSHOOT = 1.5


@dataclass(slots=True)
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

    limit: float = math.inf
    base: float = math.inf
    depth: float = 0.0
    age: float = 0.0
    cut_at: float = -math.inf
    searching: float = 1.0
    accepted_since: float = 0.0

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


# The share of accepted requests that would be refused, too, if the rate was a quarter above the limit: the test (CUSUM, Page 1954)
# finds such an excess in some 40 requests.
EXCESS = 0.2
# Evidence from which more than chance is refused: by chance once in some 2,000 requests.
EVIDENCE = 5.0
# Accepted requests assumed before the first: a refusal among few requests shows less than one among many.
PRIOR = 5.0
# Requests over which the share is averaged, to follow a server that refuses less than before.
MEMORY = 512


@dataclass(slots=True)
class ChanceShare:
    """The share of refusals that slowing down does not avoid: 0 until it was found to be the same at two rates."""

    share: float = 0.0
    recent: float = 0.0
    evidence: float = 0.0
    run_sent: float = 0.0
    """Requests since the evidence was last 0, with `run_refused` refused ones."""
    run_refused: float = 0.0

    def adopt(self, share: float) -> None:
        """Take this share of refusals for chance."""
        self.share = self.recent = share
        self.restart()

    def restart(self) -> None:
        """Begin the test again, after the rate has changed."""
        self.evidence = self.run_sent = self.run_refused = 0.0

    def send(self) -> None:
        """Record a request, which counts as accepted until it is refused."""
        if not self.share:
            return
        self.recent *= 1 - 1 / MEMORY
        # Downwards only: a share that followed refusals upwards would let the rate grow without end.
        self.share = min(self.share, self.recent + 1 / MEMORY)
        self.run_sent += 1
        self.evidence += math.log1p(-EXCESS)
        if self.evidence <= 0:
            self.restart()

    def refuse(self) -> bool:
        """Record a refusal; return whether more than chance is refused."""
        if not self.share:
            return True
        self.recent += 1 / MEMORY
        self.run_refused += 1
        self.evidence += -math.log1p(-EXCESS) + math.log1p(EXCESS * (1 - self.share) / self.share)
        return self.evidence >= EVIDENCE

    def accepted_part(self) -> float:
        """Return the part of the latest requests that would not be refused at a lower rate."""
        if not self.share:
            return 1.0
        return (1 - self.run_refused / (self.run_sent + PRIOR)) / (1 - self.share)


# A trial lasts until 12 refusals are expected, if the rate does not matter. With fewer than 6 it does (Poisson: 2 % by chance).
EXPECTED_REFUSALS, FLAT_REFUSALS = 12, 6
# None where 5 are expected: 1 % by chance.
CLEAR_REFUSALS = 5
# And at least a second: a server that allows bursts accepts some at any rate for a moment.
MIN_TRIAL_S = 1.0
# Fewer refusals in a trial are no share.
FEWEST = 3
# Refusals, and seconds, before the first trial: a trial of a short run would cost more than it can save.
MIN_REFUSALS, MIN_S = 10, 3.0
# A lower share of refusals costs less than a trial; above one half, half the rate may be refused by the limit, too.
MIN_SHARE, MAX_SHARE = 0.02, 0.5
# Requests until the next trial, in requests until the last one.
PATIENCE = 4.0
# Cuts of a limit in a row, each soon after the one before, after which chance may be their cause.
EARLY_CUTS = 4


@dataclass(slots=True)
class RateTrial:
    """Counts of the requests at the present rate and, during a trial, at half of it."""

    since: float = math.inf
    sent: float = 0.0
    refused: float = 0.0
    top: float = 0.0
    """The rate at which the counts began, and whether it was not limited."""
    is_free: float = 1.0
    cuts: float = 0.0
    due: float = 0.0
    """Requests before the next trial of a server without a limit."""
    rate: float = math.inf
    """The rate of the trial; infinite when there is none."""
    began: float = 0.0
    trial_sent: float = 0.0
    trial_refused: float = 0.0

    def send(self, now: float) -> None:
        if self.is_running:
            self.trial_sent += 1
        else:
            self.since = min(self.since, now)
            self.sent += 1

    def refuse(self, sent_at: float) -> None:
        if not self.is_running:
            self.refused += 1
        elif sent_at >= self.began:
            self.trial_refused += 1

    def cut(self, rate: float, *, is_free: bool, is_early: bool) -> None:
        """Record that the limit is cut, from this rate. A row of cuts begins with one that does not come early."""
        if is_early and self.share < MAX_SHARE:
            self.cuts += 1
        else:
            self.restart()
            self.top, self.is_free, self.cuts = rate, float(is_free), 1.0

    def begin(self, now: float, rate: float) -> None:
        self.rate, self.began = rate / 2, now
        self.trial_sent = self.trial_refused = 0.0

    def end(self) -> float:
        """End a trial; return the share of refusals at half the rate."""
        share = self.trial_refused / self.trial_sent if self.trial_refused >= FEWEST else 0.0
        self.due = PATIENCE * max(self.sent, self.due)
        self.restart()
        return share

    def restart(self) -> None:
        """Forget the counts, and end a trial."""
        self.rate = self.since = math.inf
        self.sent = self.refused = self.cuts = 0.0
        self.is_free = 1.0

    @property
    def share(self) -> float:
        """The share of refusals before a trial."""
        return self.refused / self.sent if self.sent else 0.0

    @property
    def is_running(self) -> bool:
        return self.rate < math.inf

    def is_over(self, now: float) -> bool:
        expected = self.trial_sent * self.share
        is_clear = expected >= (EXPECTED_REFUSALS if self.trial_refused else CLEAR_REFUSALS)
        return self.is_running and is_clear and now >= self.began + MIN_TRIAL_S

    def is_due(self, now: float, rate: float) -> bool:
        """Return whether the refusals at this rate are so many, and so even, that chance may be their cause."""
        if not MIN_SHARE <= self.share < MAX_SHARE:
            return False
        if self.cuts:
            return self.cuts >= EARLY_CUTS
        seconds = now - self.since
        # At the end of a run only the refused requests are left: their rate is not that of the run.
        is_usual = seconds >= MIN_S and rate >= self.sent / seconds / 2
        return self.refused >= MIN_REFUSALS and self.sent >= self.due and is_usual


# Requests sent below the last limit before a higher rate is tried: about one refusal in 200 requests is the cost of
# staying at the limit.
PLATEAU = 100.0
MIN_CUT, MAX_CUT = 0.03, 0.5
# A limit that is cut before so many acceptances was cut too little, or refuses by chance.
EARLY = PLATEAU / 2
# Lowest rate, in requests per second, if everything is refused.
SLOWEST = 1 / 15
# A request may be sent this much later without losing its place in the rate: loops wake up late.
SLACK_S = 0.01
# Shortest period from which a rate is estimated.
YOUNG_S = 0.25
# Of sums of token fractions.
ROUNDING = 1e-6
# While a limit is searched for, the rate doubles in a second.
DOUBLING = math.log(2)


@dataclass(slots=True)
class Pacing:
    """The rate at which requests may start; infinite until a request is refused or a limit is set or reported."""

    most: float = math.inf
    server_limit: float = math.inf
    """Requests per second that the server reports as its limit."""
    rate: float = math.inf
    cubic: CubicLimit = field(default_factory=CubicLimit)
    chance: ChanceShare = field(default_factory=ChanceShare)
    trial: RateTrial = field(default_factory=RateTrial)
    tokens: float = 1.0
    filled_at: float = 0.0
    sent: float = 0.0
    """Requests since the last cut; while the rate is infinite, those of about the last second."""
    sent_at: float = -math.inf
    since: float = math.inf

    def __post_init__(self) -> None:
        self.rate = self.most

    def delay(self, now: float, paused_until: float) -> float:
        """Return the seconds until the next request may start."""
        if self.rate == math.inf:
            return 0.0
        self._fill(now, paused_until)
        return 0.0 if self.tokens >= 1 - ROUNDING else (1 - self.tokens) / self.rate

    def take(self, now: float) -> bool:
        """Record a request; return whether the next one has to wait, so that acceptance shows what the server allows."""
        self.chance.send()
        self.trial.send(now)
        if self.trial.is_over(now):
            self._end_trial(now)
        if self.rate < math.inf:
            self.sent += 1
            self.tokens -= 1
            return self.tokens < 1
        if self.sent_at < now:
            self.since = min(self.since, now)
            # An exponential average over about a second: the rate before the first limit is known.
            self.sent *= math.exp(self.sent_at - now)
            self.sent_at = now
        self.sent += 1
        return False

    def accept(self, paced: bool) -> None:
        self.cubic.accepted_since = 1.0
        if not paced or self.cubic.limit == math.inf or self.trial.is_running:
            return
        self.cubic.grow(DOUBLING * self.cubic.limit / self.rate, PLATEAU)
        self._update()

    def is_chance(self, sent_at: float) -> bool:
        """Record a refusal; return whether it does not show that the rate is too high: it may be chance, or tells of a trial."""
        self.trial.refuse(sent_at)
        exceeds = self.chance.refuse()
        return self.cubic.limit == math.inf or self.trial.is_running or not exceeds

    def begin_trial_if_due(self, now: float) -> None:
        """Try half the rate if there are many refusals that may be chance."""
        rate, _ = self._rate_before(now)
        if self.trial.is_running or not self.trial.is_due(now, rate):
            return
        if self.trial.is_free and not self.trial.cuts:
            self.trial.top = rate
        self.trial.begin(now, rate)
        if self.rate == math.inf:
            self.tokens, self.filled_at = 0.0, now
        self._begin(now)

    def refuse(self, now: float, paused_until: float, sent_at: float) -> None:
        """Slow down. A request sent before the last cut is ignored: it shows the former rate."""
        if sent_at < self.cubic.cut_at:
            return
        before, accepted = self._rate_before(now)
        accepted = min(accepted, self.chance.accepted_part())
        is_free = self.cubic.limit == math.inf
        self.trial.cut(before, is_free=is_free, is_early=not is_free and self.cubic.age < EARLY)
        self._fill(now, paused_until)
        if self.rate == math.inf:
            self.tokens = 0.0
        self.cubic.cut(now, before, max(SLOWEST, before * max(MAX_CUT, min(1 - MIN_CUT, accepted))))
        self.chance.restart()
        self._begin(now)
        self.begin_trial_if_due(now)

    def allow(self, most: float) -> None:
        self.most = min(self.most, most)
        self._update()

    def set_server_limit(self, limit: float) -> None:
        self.server_limit = limit
        self._update()

    def _rate_before(self, now: float) -> tuple[float, float]:
        """Return the rate until now, and the accepted share of its requests (pauses count, although nothing was sent)."""
        if self.cubic.limit == math.inf:
            lately = 1 - math.exp(-max(YOUNG_S, now - self.since))
            return min(self.rate, max(1.0, self.sent / lately)), 1.0
        return self.rate, (self.sent - 1 + PRIOR) / (self.rate * (now - self.since) + PRIOR)

    def _end_trial(self, now: float) -> None:
        """Keep the part of the rate whose refusals are chance."""
        trial, before, half = self.trial, self.trial.share, self.trial.rate
        top, is_unlimited = trial.top, trial.is_free and trial.trial_refused >= FLAT_REFUSALS
        share = trial.end()
        if not share and self.cubic.limit < math.inf:
            pass  # the cuts were right
        elif share >= MAX_SHARE:
            self.cubic.cut(now, half, max(SLOWEST, half * (1 - share)))
        elif is_unlimited:
            self.chance.adopt(share)
            self.cubic.lift()
        else:
            self.chance.adopt(share)
            self.cubic.cut(now, top, max(SLOWEST, top * min(1.0, (1 - before) / (1 - share))))
        self._begin(now)

    def _begin(self, now: float) -> None:
        self.sent, self.since = 0.0, now
        self._update()

    def _update(self) -> None:
        self.rate = min(self.most, self.server_limit, self.trial.rate, self.cubic.value(PLATEAU))

    def _fill(self, now: float, paused_until: float) -> None:
        """Add tokens for the time that has passed, except during pauses; tokens are not saved up."""
        if self.rate < math.inf:
            passed = max(0.0, now - max(self.filled_at, paused_until))
            self.tokens = min(1 + self.rate * SLACK_S, self.tokens + passed * self.rate)
        self.filled_at = now
