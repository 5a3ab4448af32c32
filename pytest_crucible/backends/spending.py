"""The money side of a session: prices of its adapters, budgets of the run and of its experiments, and what requests may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from pytest_crucible.backends.amounts import Amount
from pytest_crucible.backends.budget import Account, Asks, Budget
from pytest_crucible.backends.prices import Price, Prices
from pytest_crucible.backends.purse import Purse
from pytest_crucible.errors import BackendError, SpecError
from pytest_crucible.records import Adapter, Reply, Request

ANSWER_TOKENS = 512
"""What an answer is taken to be long where neither a limit nor an answer says."""
CHARACTERS_A_TOKEN = 3
"""From above: English has four."""
LONGER = 1.5
"""Where nothing limits an answer, how much longer than the others it may be."""
_INFINITE = float("inf")


class Spending:
    """What everything of a session has spent and may spend. All calls come from the loop, or before it runs."""

    def __init__(self, budget: str | None = None, prices: Prices | None = None, purse: Purse | None = None) -> None:
        """`budget` is the run's. Raises SpecError for one that cannot be read."""
        self.run = None if budget is None else Budget.read(budget, purse)
        self.budgets: dict[str, Budget] = {}
        """By experiment."""
        self._prices = prices or Prices()
        self._unpriced: dict[str, str] = {}
        self._dearest = Price(0.0, 0.0)
        self._accounts: dict[str, Account | None] = {}

    def till(self, adapter: Adapter, model: str) -> Till:
        """Where an adapter's requests are paid for. Raises SpecError for a budget in dollars and a model of unknown price."""
        price = self._prices.of(adapter, model)
        if price is None:
            self._unpriced[adapter.name] = model
            if self.run is not None:
                self._check_priced(self.run, [adapter.name])
        else:
            dearest = self._dearest
            self._dearest = Price(max(price.input, dearest.input), max(price.output, dearest.output))
        return Till(self, price)

    def allow(self, experiment: str, text: str, adapters: Sequence[str]) -> None:
        """Give an experiment, which asks these adapters, a budget of its own. Raises SpecError."""
        budget = Budget.read(text)
        self._check_priced(budget, adapters)
        self.budgets[experiment] = budget

    def begin(self, experiment: str, asks: Asks) -> None:
        """An experiment begins: `asks` says which arms ask for which sample."""
        account = self.account(experiment)
        if account is not None:
            account.asks = asks

    def leave(self, experiment: str, sample: str, epoch: int, arm: str) -> None:
        """An arm asks no more for a sample."""
        account = self.account(experiment)
        if account is not None:
            account.leave(sample, epoch, arm)

    def account(self, experiment: str) -> Account | None:
        """None where nothing limits."""
        if experiment not in self._accounts:
            budgets = tuple(one for one in (self.run, self.budgets.get(experiment)) if one is not None)
            self._accounts[experiment] = Account(budgets) if budgets else None
        return self._accounts[experiment]

    @property
    def dearest(self) -> Price:
        """The highest prices among the adapters of the session."""
        return self._dearest

    def close(self) -> None:
        if self.run is not None:
            self.run.purse.close()

    def _check_priced(self, budget: Budget, adapters: Sequence[str]) -> None:
        """Dollars cannot be counted at a price that nobody knows."""
        name = next((one for one in adapters if one in self._unpriced), None)
        if name is None or budget.limit.usd == _INFINITE:
            return
        model = self._unpriced[name]
        what = f"model {model!r} of adapter {name!r}" if model else f"adapter {name!r}"
        where = f'[prices."{model}"] input = 0.15, output = 0.60, or ' if model else ""
        raise SpecError(
            f"a budget of {budget.text} needs the price of {what}, which is not known: write {where}"
            f"price = {{ input = 0.15, output = 0.60 }} in the adapter, US dollars for a million tokens"
        )


class Till:
    """One adapter's: what its requests may take, and what they took."""

    def __init__(self, spending: Spending, price: Price | None) -> None:
        self._spending = spending
        self._price = price
        self._answers, self._written = 0, 0

    @classmethod
    def of_nobody(cls) -> Till:
        """Without a budget and without a price."""
        return cls(Spending(), None)

    async def reserve(self, request: Request) -> Amount | None:
        """Before a request is sent; None where nothing limits. Raises Spent and Refused."""
        account = self._spending.account(request.experiment)
        if account is None:
            return None
        read, written = prompt_tokens(request), self._answer_tokens(request)
        needed = _amount(self._price, read, written)
        is_dearest = self._price is None or self._price == self._spending.dearest
        await account.reserve(request, needed, needed if is_dearest else _amount(self._spending.dearest, read, written))
        return needed

    def settle(self, reserved: Amount, request: Request, outcome: Reply | BaseException) -> None:
        """A request is over. What is not known to be less took as much as was reserved."""
        account = self._spending.account(request.experiment)
        assert account is not None
        account.settle(reserved, self._spent(reserved, outcome))

    def cost(self, reply: Reply) -> float | None:
        """Dollars; None where price or tokens are unknown."""
        return None if self._price is None else self._price.of(reply.input_tokens, reply.output_tokens)

    def _spent(self, reserved: Amount, outcome: Reply | BaseException) -> Amount:
        if isinstance(outcome, Reply):
            read, written = outcome.input_tokens, outcome.output_tokens
            if written is not None:
                self._answers, self._written = self._answers + 1, self._written + written
            return reserved if read is None or written is None else _amount(self._price, read, written)
        return Amount(requests=1.0) if _is_free(outcome) else reserved

    def _answer_tokens(self, request: Request) -> float:
        parameters = request.parameters
        allowed = parameters.get("max_tokens") or parameters.get("max_completion_tokens")
        usual = LONGER * self._written / self._answers if self._answers else ANSWER_TOKENS
        many = parameters.get("n")
        return (float(allowed) if _is_count(allowed) else usual) * (many if _is_count(many) else 1)


def prompt_tokens(request: Request) -> float:
    """About as many as a tokenizer would make of the prompt, rather more."""
    given = request.input
    if isinstance(given, list | tuple) and given and isinstance(given[0], int):
        return len(given)
    return len(given if isinstance(given, str) else str(given)) / CHARACTERS_A_TOKEN


def _amount(price: Price | None, read: float, written: float) -> Amount:
    usd = 0.0 if price is None else (price.input * read + price.output * written) / 1e6
    return Amount(usd, read + written, 1.0)


def _is_free(error: BaseException) -> bool:
    """A server that answers with a refusal has computed nothing. What broke off may have been computed, and billed."""
    if isinstance(error, BackendError) and error.kind:
        return error.kind.isdigit()
    return isinstance(error, BackendError)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
