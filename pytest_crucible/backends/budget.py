"""Budgets of a run and of its experiments. A request that the budget might not cover is not sent.

A sample is admitted whole, with what it may cost in all arms, so that a budget that ends in the middle measures the same
samples in each arm. The expected cost of a request is reserved before it is sent and settled when it is over. A request that finds
too little left waits until requests in flight have settled: most cost less than was reserved for them.
"""

from __future__ import annotations

import asyncio
import os
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from pytest_crucible.backends.deadlines import paused_clock
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import HELPERS, Request
from pytest_crucible.records.errors import Refused, SpecError, Spent

_UNITS = {"usd": "usd", "$": "usd", "token": "tokens", "request": "requests"}
# Either a sign before the number or a unit behind it; thousands may be grouped.
_PART = re.compile(
    r"\s*(\$)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+)\s*([km])?\s*(usd|\$|tokens?|requests?)?\s*", re.IGNORECASE
)
# A comma between digits groups thousands, so a separating comma needs a blank or a unit next to it.
_BETWEEN = re.compile(r"\s*;\s*|\s*,\s+|(?<=[A-Za-z$])\s*,\s*")
_SCALE = {"": 1.0, "k": 1e3, "m": 1e6}
# Sums of dollars are off by a few ulp: five requests of 0.1 USD must fit into 0.5 USD.
_ROUNDING = 1e-9


class Amount(NamedTuple):
    """An amount spent, reserved or allowed; an infinite part has no limit."""

    usd: float = 0.0
    tokens: float = 0.0
    requests: float = 0.0

    def plus(self, other: Amount, times: float = 1.0) -> Amount:
        return Amount(*(own + times * more for own, more in zip(self, other, strict=True)))

    def beyond(self, other: Amount) -> Amount:
        """Return the part of each unit that exceeds the other amount."""
        return Amount(*(max(0.0, own - less) for own, less in zip(self, other, strict=True)))

    def within(self, limit: Amount) -> bool:
        return all(own <= most + _ROUNDING for own, most in zip(self, limit, strict=True))


UNLIMITED = Amount(*(float("inf"),) * 3)


def read_budget(text: str) -> Amount:
    """Read a budget such as `5 USD`, `200k tokens` or `1000 requests`.

    Several limits are separated by commas. Raises SpecError.

    >>> read_budget("5 USD, 200k tokens")
    Amount(usd=5.0, tokens=200000.0, requests=inf)
    """
    limits: dict[str, float] = {}
    for part in _BETWEEN.split(text.strip()) if isinstance(text, str) else [""]:
        match = _PART.fullmatch(part)
        units = {_UNITS[word.lower().removesuffix("s")] for word in (match[1], match[4]) if word} if match else set()
        # "$5 tokens" names two units.
        unit = units.pop() if len(units) == 1 else None
        amount = float(match[2].replace(",", "")) * _SCALE[(match[3] or "").lower()] if match else 0.0
        if unit is None or not 0 < amount < float("inf") or unit in limits:
            raise SpecError(f"budget {text!r} cannot be read: write '5 USD', '200k tokens' or '1000 requests'")
        limits[unit] = amount
    return Amount(**{**UNLIMITED._asdict(), **limits})


def format_amount(amount: Amount, limit: Amount) -> str:
    """Return an amount as text, in the units that are limited.

    >>> format_amount(Amount(usd=0.25, tokens=90), Amount(usd=5, tokens=float("inf"), requests=float("inf")))
    '0.25 USD'
    """
    return ", ".join(spent for spent, _ in _parts(amount, limit))


def format_spent(amount: Amount, limit: Amount) -> str:
    """Return how much of a limit was spent, and in how many requests.

    >>> format_spent(Amount(0.25, 90, 3), Amount(usd=5, tokens=float("inf"), requests=float("inf")))
    '0.25 of 5 USD spent, in 3 requests'
    """
    parts = ", ".join(f"{spent.split()[0]} of {most}" for spent, most in _parts(amount, limit))
    return f"{parts} spent" + (f", in {amount.requests:,.0f} requests" if limit.requests == float("inf") else "")


def _parts(amount: Amount, limit: Amount) -> Iterator[tuple[str, str]]:
    for unit, spent, most in zip(("USD", "tokens", "requests"), amount, limit, strict=True):
        if most < float("inf"):
            yield _format_number(spent, unit), _format_number(most, unit)


def _format_number(number: float, unit: str) -> str:
    return f"{number:,.4g} USD" if unit == "USD" and number < 1000 else f"{number:,.0f} {unit}"


# Committed and spent: dollars, tokens and requests of each.
_COUNTS = struct.Struct("<6d")


class SpendLedger:
    """Amounts committed (spent or reserved) and amounts spent, in the memory of one process."""

    def __init__(self) -> None:
        self._amounts = Amount(), Amount()

    @property
    def committed(self) -> Amount:
        return self._read()[0]

    @property
    def spent(self) -> Amount:
        return self._read()[1]

    def take(self, amount: Amount, limit: Amount) -> bool:
        """Reserve an amount and return True; return False if the limit would be exceeded."""
        with self._lock_file():
            committed, spent = self._read()
            after = committed.plus(amount)
            if fits := after.within(limit):
                self._write(after, spent)
            return fits

    def settle(self, reserved: Amount, spent: Amount) -> None:
        with self._lock_file():
            total, before = self._read()
            self._write(total.plus(reserved, -1.0).plus(spent), before.plus(spent))

    async def lease_more(self, amount: Amount, limit: Amount) -> bool:
        """Return whether an amount that did not fit may fit now, because other workers gave back what they had reserved."""
        return False

    def close(self) -> None:
        """Nothing to close."""

    def _lock_file(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _read(self) -> tuple[Amount, Amount]:
        return self._amounts

    def _write(self, committed: Amount, spent: Amount) -> None:
        self._amounts = committed, spent


class SharedLedger(SpendLedger):
    """A ledger in a file. A process that dies leaves its reservations: its requests may have been billed."""

    def __init__(self, path: Path, *, removes_file: bool = False) -> None:
        """The ledger with `removes_file` deletes it at the end. Raises SpecError if files cannot be locked on this system."""
        try:
            import fcntl
        except ImportError:
            raise SpecError(
                "sharing a budget between workers needs file locking, which this system lacks: run without pytest-xdist (-n 0)"
            ) from None
        self._path, self._removes = path, removes_file
        self._lockf, self._lock, self._unlock = fcntl.lockf, fcntl.LOCK_EX, fcntl.LOCK_UN
        # O_NOFOLLOW: another user of the machine cannot redirect the file. Mode 0600: only this user reads it.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            if self._removes:
                self._path.unlink(missing_ok=True)

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        self._lockf(self._file, self._lock)
        try:
            yield
        finally:
            self._lockf(self._file, self._unlock)

    def _read(self) -> tuple[Amount, Amount]:
        counts = _COUNTS.unpack(os.pread(self._file, _COUNTS.size, 0).ljust(_COUNTS.size, b"\0"))
        return Amount(*counts[:3]), Amount(*counts[3:])

    def _write(self, committed: Amount, spent: Amount) -> None:
        os.pwrite(self._file, _COUNTS.pack(*committed, *spent), 0)


Place = tuple[str, int]
ArmsOf = Callable[[str, int], Iterable[str]]
"""Return the arms that will send requests for a sample and repeat."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit, its text as the user wrote it, and the ledger of expenses."""

    text: str
    limit: Amount
    ledger: SpendLedger = field(default_factory=SpendLedger)

    @classmethod
    def read(cls, text: str, ledger: SpendLedger | None = None, *, parts: int = 1) -> Budget:
        """Return a budget, or one of so many equal parts of it. Raises SpecError."""
        return cls(text, Amount(*(most / parts for most in read_budget(text))), ledger or SpendLedger())

    def spent(self) -> Amount:
        return self.ledger.spent

    def __str__(self) -> str:
        return format_spent(self.spent(), self.limit)


@dataclass(slots=True)
class Account:
    """The account of one experiment: its own budget, the run's budget, and the reservations of its samples."""

    budgets: tuple[Budget, ...]
    arms_of: ArmsOf | None = None
    """None if no arms were announced: then each arm is admitted by itself."""
    _left: dict[Place, dict[str, Amount]] = field(default_factory=dict)
    """For each admitted sample: what is reserved for its arms and not used yet."""
    _refused: set[Place] = field(default_factory=set)
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    _under_way: int = 0
    # Admitted arms of samples, and their requests: the mean is what the next sample is expected to send.
    _arms: int = 0
    _requests: int = 0
    _short: tuple[SpendLedger, Amount, Amount] | None = None
    """The ledger that had too little left, the amount and the limit, of the last reservation."""

    async def reserve(self, request: Request, needed: Amount, dearest: Amount) -> None:
        """Reserve what a request may cost; `dearest` is its cost in the most expensive arm. Raises Spent and Refused."""
        while not self._try_reserve(request, needed, dearest):
            short, self._short = self._short, None
            if short is not None and await short[0].lease_more(*short[1:]):
                continue
            if not self._under_way:
                raise self._shortage(request, dearest)
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            with paused_clock():
                await waiter
        self._under_way += 1
        # Judges' requests are left out: they would inflate the expected requests of a sample.
        self._requests += not request.arm.startswith(HELPERS)

    def settle(self, reserved: Amount, spent: Amount) -> None:
        self._under_way -= 1
        self._release(reserved, spent)

    def release(self, sample: str, repeat: int, arm: str) -> None:
        """Free what an arm has reserved and not used for a sample, for which it sends no more requests."""
        place = sample, repeat
        left = self._left.get(place, {})
        unused = left.pop(arm, None)
        if not left:
            self._left.pop(place, None)
        if unused is not None and any(unused):
            self._release(unused, Amount())

    def _try_reserve(self, request: Request, needed: Amount, dearest: Amount) -> bool:
        place = request.sample, request.repeat
        # A judge is not an arm, so nothing is reserved for it in advance: it pays for each request.
        if request.arm.startswith(HELPERS):
            return self._take(needed)
        if place in self._refused:
            return False
        left = self._left.get(place)
        if left is None or (self.arms_of is None and request.arm not in left):
            left = self._admit(request, dearest)
        if left is None:
            return False
        reserved = left.get(request.arm, Amount())
        if not self._take(needed.beyond(reserved)):
            return False
        left[request.arm] = reserved.beyond(needed)
        return True

    def _admit(self, request: Request, dearest: Amount) -> dict[str, Amount] | None:
        """Reserve the requests of an average sample for all arms; None if too little is left."""
        share = Amount().plus(dearest, max(1.0, self._requests / self._arms if self._arms else 1.0))
        arms = tuple(self.arms_of(request.sample, request.repeat)) if self.arms_of else (request.arm,)
        if not self._take(Amount().plus(share, len(arms))):
            return None
        self._arms += len(arms)
        place = request.sample, request.repeat
        left = self._left.setdefault(place, {})
        left.update(dict.fromkeys(arms, share))
        return left

    def _take(self, amount: Amount) -> bool:
        if not any(amount):
            return True
        for number, budget in enumerate(self.budgets):
            if not budget.ledger.take(amount, budget.limit):
                self._short = budget.ledger, amount, budget.limit
                # All or nothing: what earlier budgets have reserved is returned.
                for earlier in self.budgets[:number]:
                    earlier.ledger.settle(amount, Amount())
                return False
        return True

    def _release(self, reserved: Amount, spent: Amount) -> None:
        for budget in self.budgets:
            budget.ledger.settle(reserved, spent)
        # All are woken, since any of them may fit now; those that do not fit wait again.
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _shortage(self, request: Request, dearest: Amount) -> Spent | Refused:
        place = request.sample, request.repeat
        # Later arms of this sample must fail alike, or the pair would be broken.
        if place not in self._left:
            self._refused.add(place)
        arms = len(tuple(self.arms_of(*place))) if self.arms_of else 1
        for budget in self.budgets:
            needed = Amount().plus(dearest, arms)
            if not needed.within(budget.limit) and not any(budget.spent()):
                many = f" in {arms} arms" if arms > 1 else ""
                return Refused(
                    f"a budget of {budget.text} does not pay for one sample{many}, which may take "
                    f"{format_amount(needed, budget.limit)}: allow more, or set a smaller max_tokens"
                )
        # The budget that is short now; the first one, if another has settled meanwhile.
        short = (
            budget for budget in self.budgets if not budget.ledger.committed.plus(dearest, arms).within(budget.limit)
        )
        exhausted = next(short, self.budgets[0])
        return Spent(f"the budget of {exhausted.text} is exhausted: {exhausted}")
