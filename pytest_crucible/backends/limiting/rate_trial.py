"""Tries half the rate for a moment, to learn whether refusals become fewer: then the rate is their cause.

Refusals in clusters show a limit by themselves. A limit just below the present rate refuses evenly, one request in ten, and so does
a server that refuses by chance: only another rate tells them apart.
"""

from __future__ import annotations

import math

# Refusals in a trial that show that half the rate is refused as well. A trial lasts until 12 are expected: a limit that quarters
# the share is then taken for chance in one case of five, and chance for a limit in one of a hundred (Poisson).
FLAT_REFUSALS, EXPECTED_REFUSALS = 5, 12
# Refusals, and seconds, before the first trial: a trial of a short run would cost more than it can save.
MIN_REFUSALS, MIN_S = 10, 3.0
# A lower share of refusals costs less than a trial.
MIN_SHARE = 0.02
# Requests until the next trial, in requests until the last one.
PATIENCE = 4.0


class RateTrial:
    """Counts of the requests at the present rate and, during a trial, at half of it."""

    __slots__ = ("began", "due", "rate", "refused", "sent", "share", "since", "trial_refused", "trial_sent")

    def __init__(self) -> None:
        self.since = math.inf
        self.sent = 0.0
        self.refused = 0.0
        self.due = 0.0
        """Requests before the next trial."""
        self.rate = math.inf
        """The rate of the trial; infinite when there is none."""
        self.share = 0.0
        """The share of refusals before the trial."""
        self.began = 0.0
        self.trial_sent = 0.0
        self.trial_refused = 0.0

    def send(self, now: float) -> None:
        self.since = min(self.since, now)
        if self.rate < math.inf:
            self.trial_sent += 1
        else:
            self.sent += 1

    def refuse(self, now: float, sent_at: float, rate: float) -> bool:
        """Record a refusal at this rate; return whether a trial begins or ends."""
        if self.rate < math.inf:
            self.trial_refused += sent_at >= self.began
            return self.trial_refused >= FLAT_REFUSALS
        self.refused += 1
        return self._is_due(now, rate)

    def begin(self, now: float, rate: float) -> None:
        """Begin a trial at half this rate."""
        self.rate, self.began, self.share = rate / 2, now, self.refused / self.sent
        self.trial_sent = self.trial_refused = 0.0

    def end(self) -> None:
        """End a trial in which nothing changed. The next one comes much later."""
        self.due = PATIENCE * max(self.sent, self.due)
        self.reset()

    def reset(self) -> None:
        """Forget the counts."""
        self.rate = self.since = math.inf
        self.sent = self.refused = 0.0

    @property
    def shows_limit(self) -> bool:
        """True if half the rate was refused much less often."""
        return self.rate < math.inf and self.trial_sent * self.share >= EXPECTED_REFUSALS

    def _is_due(self, now: float, rate: float) -> bool:
        seconds = now - self.since
        return (
            self.refused >= MIN_REFUSALS
            and seconds >= MIN_S
            and self.sent >= self.due
            and self.refused >= MIN_SHARE * self.sent
            # At the end of a run only the refused requests are left: their rate is not that of the run.
            and rate >= self.sent / seconds / 2
        )
