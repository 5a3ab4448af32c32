"""What a run, and each of its experiments, may spend. Nothing is sent that might not be paid for.

A sample is admitted whole: with what it may take in all arms, so that a budget that ends in the middle takes the same samples
from all of them. What a request is expected to take is reserved before it is sent, and settled when it is over. Who finds
too little left waits for what is under way to be settled: most requests take less than they might.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pytest_crucible.backends.amounts import Amount, read_budget, said, spent_of
from pytest_crucible.backends.patience import not_counted
from pytest_crucible.backends.purse import OwnPurse, Purse
from pytest_crucible.errors import Refused, Spent
from pytest_crucible.records import JUDGE, Request

Place = tuple[str, int]
"""Sample and repeat."""
Asks = Callable[[str, int], Iterable[str]]
"""The arms that will ask for a sample and repeat."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit, as it was written, and what is taken of it."""

    text: str
    limit: Amount
    purse: Purse = field(default_factory=OwnPurse)

    @classmethod
    def read(cls, text: str, purse: Purse | None = None) -> Budget:
        """Raises SpecError."""
        return cls(text, read_budget(text), purse or OwnPurse())

    def spent(self) -> Amount:
        return self.purse.spent

    def __str__(self) -> str:
        """What was spent of what."""
        return spent_of(self.spent(), self.limit)


@dataclass(slots=True)
class Account:
    """What one experiment may spend, by its own budget and the run's, and what its samples have reserved."""

    budgets: tuple[Budget, ...]
    asks: Asks | None = None
    """None where nothing was announced: then each arm is admitted by itself."""
    _left: dict[Place, dict[str, Amount]] = field(default_factory=dict)
    """Of each sample that was admitted: what is reserved for its arms and not used yet."""
    _refused: set[Place] = field(default_factory=set)
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    _under_way: int = 0
    _arms: int = 0
    """Admitted arms of samples so far, and the requests that they have made."""
    _requests: int = 0

    async def reserve(self, request: Request, needed: Amount, dearest: Amount) -> None:
        """Reserve what a request may take; `dearest` is what it would take in the most expensive arm.

        Raises Spent when too little is left, Refused when it never was enough for one sample.
        """
        while not self._reserved(request, needed, dearest):
            if not self._under_way:
                raise self._spent(request, dearest)
            with not_counted():
                await self._settled()
        self._under_way += 1
        self._requests += not request.arm.startswith(JUDGE)

    def settle(self, reserved: Amount, spent: Amount) -> None:
        """A request is over."""
        self._under_way -= 1
        self._give_back(reserved, spent)

    def leave(self, sample: str, epoch: int, arm: str) -> None:
        """An arm asks no more for a sample: what it had reserved and not used is free again."""
        place = sample, epoch
        left = self._left.get(place, {})
        unused = left.pop(arm, None)
        if not left:
            self._left.pop(place, None)
        if unused is not None and any(unused):
            self._give_back(unused, Amount())

    def _reserved(self, request: Request, needed: Amount, dearest: Amount) -> bool:
        place = request.sample, request.epoch
        if request.arm.startswith(JUDGE):  # no arm, for which nothing is kept: it pays as it goes
            return self._take(needed)
        if place in self._refused:
            return False
        left = self._left.get(place)
        if left is None or (self.asks is None and request.arm not in left):
            left = self._admitted(request, dearest)
        if left is None:
            return False
        mine = left.get(request.arm, Amount())
        if not self._take(needed.beyond(mine)):
            return False
        left[request.arm] = mine.beyond(needed)
        return True

    def _admitted(self, request: Request, dearest: Amount) -> dict[str, Amount] | None:
        """Reserve for all arms, as many requests as a sample has made so far; None when too little is left."""
        share = self._share(dearest)
        arms = tuple(self.asks(request.sample, request.epoch)) if self.asks else (request.arm,)
        if not self._take(Amount().plus(share, len(arms))):
            return None
        self._arms += len(arms)
        place = request.sample, request.epoch
        left = self._left.setdefault(place, {})
        left.update(dict.fromkeys(arms, share))
        return left

    def _share(self, dearest: Amount) -> Amount:
        return Amount().plus(dearest, max(1.0, self._requests / self._arms if self._arms else 1.0))

    def _take(self, amount: Amount) -> bool:
        """From all budgets or from none."""
        if not any(amount):
            return True
        for number, budget in enumerate(self.budgets):
            if not budget.purse.take(amount, budget.limit):
                for one in self.budgets[:number]:
                    one.purse.settle(amount, Amount())
                return False
        return True

    def _give_back(self, reserved: Amount, spent: Amount) -> None:
        for budget in self.budgets:
            budget.purse.settle(reserved, spent)
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def _settled(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _spent(self, request: Request, dearest: Amount) -> Spent | Refused:
        place = request.sample, request.epoch
        if place not in self._left:
            self._refused.add(place)
        arms = len(tuple(self.asks(*place))) if self.asks else 1
        for budget in self.budgets:
            wanted = Amount().plus(dearest, arms)
            if not wanted.within(budget.limit) and not any(budget.spent()):
                many = f" in {arms} arms" if arms > 1 else ""
                return Refused(
                    f"a budget of {budget.text} does not pay for one sample{many}, which may take "
                    f"{said(wanted, budget.limit)}: allow more, or set a smaller max_tokens"
                )
        short = next((one for one in self.budgets if not one.purse.taken.plus(dearest, arms).within(one.limit)), None)
        told = short or self.budgets[0]
        return Spent(f"the budget of {told.text} does not pay for this any more: {told}")
