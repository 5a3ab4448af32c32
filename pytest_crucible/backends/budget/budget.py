"""Budgets of a run and of its experiments. A request that the budget might not cover is not sent.

A sample is admitted whole, with what it may cost in all arms, so that a budget that ends in the middle measures the same
samples in each arm. The expected cost of a request is reserved before it is sent and settled when it is over. A request that finds
too little left waits until requests in flight have settled: most cost less than was reserved for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pytest_crucible.backends.budget.amounts import Amount, format_amount, format_spent, read_budget
from pytest_crucible.backends.budget.ledger import ProcessLedger, SpendLedger
from pytest_crucible.backends.sample_clock import paused_clock
from pytest_crucible.records import HELPERS, Request
from pytest_crucible.records.errors import Refused, Spent

Place = tuple[str, int]
"""Sample and repeat."""
ArmsOf = Callable[[str, int], Iterable[str]]
"""Return the arms that will send requests for a sample and repeat."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit, its text as the user wrote it, and the ledger of expenses."""

    text: str
    limit: Amount
    ledger: SpendLedger = field(default_factory=ProcessLedger)

    @classmethod
    def read(cls, text: str, ledger: SpendLedger | None = None) -> Budget:
        """Read a budget. Raises SpecError."""
        return cls(text, read_budget(text), ledger or ProcessLedger())

    def spent(self) -> Amount:
        return self.ledger.spent

    def __str__(self) -> str:
        """Return how much of the limit was spent."""
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

    async def reserve(self, request: Request, needed: Amount, dearest: Amount) -> None:
        """Reserve what a request may cost; `dearest` is its cost in the most expensive arm.

        Raises Spent if too little is left, Refused if the budget never was enough for one sample.
        """
        while not self._try_reserve(request, needed, dearest):
            if not self._under_way:
                raise self._shortage(request, dearest)
            with paused_clock():
                await self._wait_for_settlement()
        self._under_way += 1
        # Judges' requests are left out: they would inflate the expected requests of a sample.
        self._requests += not request.arm.startswith(HELPERS)

    def settle(self, reserved: Amount, spent: Amount) -> None:
        """Replace the reservation of a finished request by its cost."""
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
        share = self._share(dearest)
        arms = tuple(self.arms_of(request.sample, request.repeat)) if self.arms_of else (request.arm,)
        if not self._take(Amount().plus(share, len(arms))):
            return None
        self._arms += len(arms)
        place = request.sample, request.repeat
        left = self._left.setdefault(place, {})
        left.update(dict.fromkeys(arms, share))
        return left

    def _share(self, dearest: Amount) -> Amount:
        return Amount().plus(dearest, max(1.0, self._requests / self._arms if self._arms else 1.0))

    def _take(self, amount: Amount) -> bool:
        """Reserve in all budgets or in none; return whether it was reserved."""
        if not any(amount):
            return True
        for number, budget in enumerate(self.budgets):
            if not budget.ledger.take(amount, budget.limit):
                # All or nothing: what earlier budgets have reserved is returned.
                for taken in self.budgets[:number]:
                    taken.ledger.settle(amount, Amount())
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

    async def _wait_for_settlement(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

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
        short = (budget for budget in self.budgets if not budget.ledger.taken.plus(dearest, arms).within(budget.limit))
        exhausted = next(short, self.budgets[0])
        return Spent(f"the budget of {exhausted.text} is exhausted: {exhausted}")
