"""Tries half the rate for a moment, to learn how many refusals the rate causes: at half of it, only those by chance are left.

Refusals in clusters show a limit by themselves. A limit just below the present rate refuses evenly, one request in ten, and so does
a server that refuses by chance: only another rate tells them apart.
"""

from __future__ import annotations

import math

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


class RateTrial:
    """Counts of the requests at the present rate and, during a trial, at half of it."""

    __slots__ = (
        "began",
        "cuts",
        "due",
        "is_free",
        "rate",
        "refused",
        "sent",
        "since",
        "top",
        "trial_refused",
        "trial_sent",
    )

    def __init__(self) -> None:
        self.since = math.inf
        self.sent = 0.0
        self.refused = 0.0
        self.top = 0.0
        """The rate at which the counts began, and whether it was not limited."""
        self.is_free = 1.0
        self.cuts = 0.0
        """Cuts of the limit since then."""
        self.due = 0.0
        """Requests before the next trial of a server without a limit."""
        self.rate = math.inf
        """The rate of the trial; infinite when there is none."""
        self.began = 0.0
        self.trial_sent = 0.0
        self.trial_refused = 0.0

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
        """Begin a trial at half this rate."""
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

    @property
    def is_flat(self) -> bool:
        """True if half the rate is refused as well."""
        return self.trial_refused >= FLAT_REFUSALS

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
