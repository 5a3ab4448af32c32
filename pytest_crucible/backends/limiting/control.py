"""State of a server as the limiter has learned it, and the delay of the next request that follows from it."""

from __future__ import annotations

import math
from dataclasses import field, fields

from pytest_crucible.backends.limiting.rate import ROUNDING, CubicLimit, Pacing
from pytest_crucible.backends.protocol import is_number, is_whole
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Reply
from pytest_crucible.records.errors import REFUSALS, BackendError, Retryable, SpecError

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


@dataclass(slots=True)
class Window:
    """The number of requests that may be in flight; infinite until the server shows that it is overloaded."""

    most: float = math.inf
    """Concurrency that the user allows for this server."""
    ordinary: float = math.inf
    """Concurrency of regular requests; spare requests (hedges) come on top."""
    size: float = math.inf
    cubic: CubicLimit = field(default_factory=CubicLimit)
    held: float = 0.0
    spares: float = 0.0
    most_accepted: float = 0.0
    """The largest number recently in flight when a request was accepted."""
    beyond: float = 0.0
    strain: float = 0.0
    before: float = math.inf

    def __post_init__(self) -> None:
        self.size = self.most

    def allow(self, most: float) -> None:
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
        return self.beyond >= BEYOND_REFUSALS and self.accepted < self.size

    @property
    def accepted(self) -> float:
        """The largest number that was accepted."""
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
            self.cut(now, to)
        elif self.strain > HELD:
            self.cubic.hold(self._plateau())

    def cut(self, now: float, to: float) -> None:
        self.cubic.cut(now, self.size, to)
        self._update()

    def _plateau(self) -> float:
        return PLATEAU if self.cubic.base == math.inf else max(PLATEAU, ROUNDS * self.cubic.base)

    def _update(self) -> None:
        value = self.cubic.value(self._plateau())
        self.size = self.most if value == math.inf else min(self.most, max(1.0, math.floor(value + 0.5)))


@dataclass(slots=True)
class Sent:
    """A request in flight, with the state that its end is compared with."""

    at: float
    crowd: float
    """How many were in flight when it was sent, with it."""
    paced: bool
    """Whether the next request had to wait for the rate: only then does its acceptance show what the server allows."""
    charged: float
    spare: bool
    settled: bool = False
    """Whether it is known to be accepted, or has ended."""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    concurrency: float = math.inf
    requests_per_second: float = math.inf
    tokens_per_minute: float = math.inf

    def share(self, parts: int) -> Limits:
        """Return one worker's part, for workers that share no state."""
        return Limits(
            concurrency=max(1, self.concurrency // parts) if self.concurrency < math.inf else math.inf,
            requests_per_second=self.requests_per_second / parts,
            tokens_per_minute=self.tokens_per_minute / parts,
        )


NAMES = tuple(limit.name for limit in fields(Limits))


def read_limits(adapter: Adapter) -> Limits:
    """Read `limit` of an adapter. Raises SpecError."""
    table = adapter.asking.get("limit", {})
    if not isinstance(table, dict):
        raise SpecError(f"adapter {adapter.name!r} has limit = {table!r}: write limit = {{ requests_per_second = 50 }}")
    if unknown := sorted(set(table) - set(NAMES)):
        raise SpecError(f"adapter {adapter.name!r} has an unknown limit {unknown[0]!r}; expected {', '.join(NAMES)}")
    for name, value in table.items():
        fits, expected = (
            (is_whole, "a whole number from 1") if name == "concurrency" else (is_number, "a number above 0")
        )
        if not (fits(value) and value > 0):
            raise SpecError(f"adapter {adapter.name!r} has a limit of {name} = {value!r}: write {expected}")
    return Limits(**table)


# Assumed tokens of a request before the first answer.
GUESS = 1000.0
# The weight of the latest request in the moving mean of tokens: it follows about the last 32.
RECENT_TOKENS = 1 / 32


@dataclass(slots=True)
class TokenMeter:
    """A balance of tokens that grows at a rate and may be overdrawn: nothing is sent while it is negative."""

    most: float = math.inf
    server_limit: float = math.inf
    """Tokens per minute that the server reports as its limit."""
    balance: float = 0.0
    filled_at: float = 0.0
    mean: float = GUESS

    def delay(self, now: float) -> float:
        """Return the seconds until the balance is not negative."""
        a_minute = min(self.most, self.server_limit)
        if a_minute == math.inf:
            return 0.0
        # One second's worth at most: the bucket smooths, it does not save up.
        self.balance = min(a_minute / 60, self.balance + (now - self.filled_at) * a_minute / 60)
        self.filled_at = now
        return 0.0 if self.balance >= -ROUNDING else -self.balance * 60 / a_minute

    def take(self) -> float:
        self.balance -= self.mean
        return self.mean

    def settle(self, charged: float, used: float | None) -> None:
        """Replace the charge by the actual tokens; a failed request has used none."""
        self.balance += charged - (used or 0.0)
        if used:
            self.mean += RECENT_TOKENS * (used - self.mean)


REFUSED = "429"
# A failure that does not depend on the server's load.
UNKNOWN = "connection"
# Longer pauses are not applied to all requests.
# A longer pause ends the experiment (retried.LONG_S); other arms then find out for themselves.
LONGEST_PAUSE_S = 600.0
# Seconds after a refusal in which no spare request (hedge) is sent.
CALM_S = 5.0


class Control:
    """Plain numbers without a clock: each method that needs the time gets it as `now`, in seconds.

    >>> control = Control(Limits(requests_per_second=50))
    >>> control.delay(0.0)
    0.0
    >>> _ = control.take(0.0)
    >>> control.delay(0.0)
    0.02
    """

    __slots__ = ("pacing", "paused_until", "processes", "token_meter", "waiting", "window")

    def __init__(self, limits: Limits, ordinary: float = math.inf) -> None:
        self.window = Window(limits.concurrency, ordinary)
        self.pacing = Pacing(limits.requests_per_second)
        self.token_meter = TokenMeter(limits.tokens_per_minute)
        self.paused_until = 0.0
        self.waiting = 0.0
        self.processes = 1.0

    def delay(self, now: float, *, spare: bool = False) -> float:
        """Return the seconds until one more request may be sent; infinite: not before a request in flight has ended."""
        if now < self.paused_until:
            return self.paused_until - now
        if self.window.is_full(spare=spare):
            return math.inf
        return max(self.pacing.delay(now, self.paused_until), self.token_meter.delay(now))

    def can_spare(self, now: float) -> bool:
        """Return whether the server has room for a spare request (a hedge)."""
        refused_at = max(self.pacing.cubic.cut_at, self.window.cubic.cut_at, self.paused_until - CALM_S)
        return not self.waiting and now - refused_at >= CALM_S and self.delay(now, spare=True) == 0

    def take(self, now: float, *, spare: bool = False) -> Sent:
        return Sent(now, self.window.take(spare=spare), self.pacing.take(now), self.token_meter.take(), spare)

    def accept(self, sent: Sent) -> None:
        """Record that a request was not refused: it has an answer, or has been in flight too long to be refused."""
        if not sent.settled:
            sent.settled = True
            self.window.accept(sent.crowd)
            self.pacing.accept(sent.paced)

    def end(
        self, now: float, sent: Sent, outcome: Reply | BaseException | None, share_before: float | None = None
    ) -> None:
        """Record the end of a request; `share_before`: of refusals before the cluster that this one completes, if it does."""
        self.window.leave(spare=sent.spare)
        self.token_meter.settle(sent.charged, _tokens(outcome))
        if isinstance(outcome, Retryable):
            self._fail(now, sent, outcome, share_before)
        elif isinstance(outcome, Reply | BackendError):
            self.accept(sent)

    def tighten(self, limits: Limits) -> None:
        self.window.allow(limits.concurrency)
        self.pacing.allow(limits.requests_per_second)
        self.token_meter.most = min(self.token_meter.most, limits.tokens_per_minute)

    def set_server_limits(self, requests_a_second: float | None, tokens_a_second: float | None) -> None:
        if requests_a_second is not None:
            self.pacing.set_server_limit(requests_a_second)
        if tokens_a_second is not None:
            self.token_meter.server_limit = tokens_a_second * 60

    @property
    def tolerates_refusals(self) -> bool:
        """True if one more refusal does not show that the server is queried too fast."""
        return not self._is_limited or self.pacing.chance.share > 0

    @property
    def _is_limited(self) -> bool:
        return min(self.pacing.cubic.limit, self.window.cubic.limit) < math.inf

    def _fail(self, now: float, sent: Sent, error: Retryable, share_before: float | None) -> None:
        if error.kind in REFUSALS:
            self._refuse(now, sent, error, share_before)
        elif error.kind == "timeout":
            self.window.overload(now, sent.at)
        elif error.kind != UNKNOWN:
            self.accept(sent)

    def _refuse(self, now: float, sent: Sent, error: Retryable, share_before: float | None) -> None:
        """Record a refusal. One that may be chance concerns only its own request, which waits by itself."""
        is_chance = self.pacing.is_chance(sent.at)
        stops_all = share_before is not None or error.quota_exhausted
        is_crowded = self.window.is_cause(sent.at, sent.crowd)
        # Above a number of concurrent requests, too, a few are refused by chance.
        is_crowded = is_crowded and (stops_all or self.window.cubic.limit < math.inf or not self.tolerates_refusals)
        if not stops_all and is_chance and not is_crowded:
            self.pacing.begin_trial_if_due(now)
            return
        # Near a limit that is known, the refusals before were not chance.
        if share_before and not self._is_limited:
            self.pacing.chance.adopt(share_before)
        # A refusal that is due to concurrency must not slow the rate as well.
        if is_crowded:
            self.window.cut(now, self.window.accepted)
        elif error.kind == REFUSED:
            self.pacing.refuse(now, self.paused_until, sent.at)
        else:
            self.window.overload(now, sent.at)
        pause_s = max(0.0, error.retry_after_s or 0.0)
        if stops_all and pause_s <= LONGEST_PAUSE_S:
            self.paused_until = max(self.paused_until, now + pause_s)


def _tokens(outcome: Reply | BaseException | None) -> float | None:
    if not isinstance(outcome, Reply) or (outcome.input_tokens is None and outcome.output_tokens is None):
        return None
    return float((outcome.input_tokens or 0) + (outcome.output_tokens or 0))


class LimiterState:
    """The state of a limiter in one process. `with state as control:` gives exclusive access; the block must not wait."""

    poll_s = 1.0
    """How often to look whether other processes have made room."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def __enter__(self) -> Control:
        return self._control

    def __exit__(self, *error: object) -> None:
        """Nothing to unlock."""

    def must_yield(self, control: Control) -> bool:
        """Return whether another process waits that has less than its share."""
        return False

    def wait(self, control: Control, waits: bool) -> None:
        """Record whether requests of this process wait."""

    def reclaim_dead(self, control: Control, now: float) -> None:
        """Reclaim, from time to time, the permits of processes that have died."""

    def close(self) -> None:
        """Return the permits that are still held."""
