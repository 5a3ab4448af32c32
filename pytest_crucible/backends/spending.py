"""The cost of requests: prices of tokens, the spending of a session, and the wrapper that pays for each request."""

from __future__ import annotations

import dataclasses
import functools
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import resources
from typing import Any, TypeGuard

from pytest_crucible.backends.budget import Account, Amount, ArmsOf, Budget, SpendLedger
from pytest_crucible.backends.protocol import Backend, Wrapper, is_number, is_whole, validate_reply
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request
from pytest_crucible.records.errors import BackendError, SpecError

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens: prompt tokens (input) and reply tokens (output)."""

    input: float
    output: float
    cached: float | None = None
    """Prompt tokens that the service has cached; None where these cost the same, or nothing is known of it."""

    def of(
        self, input_tokens: float | None, output_tokens: float | None, cached_tokens: float | None = None
    ) -> float | None:
        """Return the cost in dollars; None if a number of tokens is unknown. Cached ones are among those of the input.

        >>> Price(2.50, 10.00).of(1_000, 200), Price(2.50, 10.00, cached=0.50).of(1_000, 200, 800)
        (0.0045, 0.0029)
        """
        if input_tokens is None or output_tokens is None:
            return None
        discount = 0.0 if self.cached is None else (self.input - self.cached) * min(cached_tokens or 0.0, input_tokens)
        return (self.input * input_tokens + self.output * output_tokens - discount) / _MILLION


# The price of what is computed on this machine.
FREE = Price(0.0, 0.0)


class Prices:
    """The packaged price table, and a project's own table, which takes precedence."""

    def __init__(self, own: Any = None) -> None:
        """`own` is the project's table `[prices]`. Raises SpecError for an invalid entry."""
        if not isinstance(own, Mapping | None):
            raise SpecError(f'prices = {own!r}: expected one table per model, as in [prices."gpt-4o"]')
        self._table = {name: read_price(f"[prices.{name!r}] is", entry) for name, entry in (own or {}).items()}

    def of(self, adapter: Adapter, model: str, *, bases: Sequence[str] = (), is_free: bool = False) -> Price | None:
        """Return the adapter's own `price`, else the price of its model, or of one of its bases; None if unknown.

        A project's names may be patterns such as `gpt-4o*`; the longest match is used. The packaged table has whole names only:
        dated snapshots of one model have been sold at different prices.
        """
        if "price" in adapter.asking:
            return read_price(f"adapter {adapter.name!r} has price =", adapter.asking["price"])
        if is_free:
            return FREE
        names = list(filter(None, (model, *bases)))
        whole = [name for name in names if name in self._table]
        patterns = [pattern for pattern in self._table if any(fnmatchcase(name, pattern) for name in names)]
        if whole or patterns:
            return self._table[whole[0] if whole else max(patterns, key=len)]
        return packaged_prices().get(model)


def read_price(where: str, entry: Any) -> Price:
    """Read a table `{ input = 0.15, output = 0.60 }`, perhaps with `cached`. Raises SpecError; `where` opens its message."""
    fits = isinstance(entry, Mapping) and {"input", "output"} <= set(entry) <= {"input", "output", "cached"}
    if not fits or not all(is_number(value) and value >= 0 for value in entry.values()):
        raise SpecError(
            f"{where} {entry!r}, which is not a price: write {{ input = 0.15, output = 0.60 }}, "
            "US dollars for a million tokens"
        )
    cached = float(entry["cached"]) if "cached" in entry else None
    return Price(float(entry["input"]), float(entry["output"]), cached)


@functools.cache
def packaged_prices() -> Mapping[str, Price]:
    """Return the table that comes with the package."""
    text = resources.files("pytest_crucible.backends").joinpath("prices.toml").read_text(encoding="utf-8")
    return {name: Price(float(row["input"]), float(row["output"])) for name, row in tomllib.loads(text).items()}


# Assumed length of an answer, without a limit and before the first answer.
ANSWER_TOKENS = 512
# English has about four characters a token; three reserves rather too much than too little.
CHARACTERS_A_TOKEN = 3
# An answer without a limit is assumed to be at most this many times as long as the average so far.
LONGER = 1.5
_INFINITE = float("inf")


class Spending:
    """Expenses of a session and their limits. All calls come from the sampling loop, or before it runs."""

    def __init__(
        self,
        budget: str | None = None,
        prices: Prices | None = None,
        open_ledger: Callable[[str], SpendLedger] = lambda experiment: SpendLedger(),
        *,
        parts: int = 1,
    ) -> None:
        """`budget` is the run's, as text; `open_ledger` returns the ledger of an experiment, or of the run ("").

        Of all budgets, each of so many `parts` of a run has its share. Raises SpecError for an invalid budget.
        """
        self._open_ledger = open_ledger
        self._parts = parts
        self.run = None if budget is None else Budget.read(budget, open_ledger(""), parts=parts)
        self.budgets: dict[str, Budget] = {}
        """By experiment."""
        self._shared: dict[str, Budget] = {}
        """The same, for experiments that spend from the budget of another."""
        self._prices = prices or Prices()
        self._unpriced: dict[str, str] = {}
        self.dearest = Price(0.0, 0.0)
        self._accounts: dict[str, Account | None] = {}

    def meter(self, adapter: Adapter, model: str, *, bases: Sequence[str] = (), is_free: bool = False) -> CostMeter:
        """Return the meter of an adapter's requests. Raises SpecError for a budget in dollars with an unknown price."""
        price = self._prices.of(adapter, model, bases=bases, is_free=is_free)
        if price is None:
            # A checkpoint costs what its base costs.
            self._unpriced[adapter.name] = bases[0] if bases else model
            if self.run is not None:
                self._check_priced(self.run, [adapter.name])
        else:
            dearest = self.dearest
            self.dearest = Price(max(price.input, dearest.input), max(price.output, dearest.output))
        return CostMeter(self, price)

    def allow(self, experiment: str, text: str, adapters: Sequence[str]) -> None:
        """Give an experiment a budget of its own; `adapters` are those it queries. Raises SpecError."""
        budget = Budget.read(text, self._open_ledger(experiment), parts=self._parts)
        self._check_priced(budget, adapters)
        self.budgets[experiment] = budget

    def share(self, experiment: str, other: str) -> None:
        """Let another experiment, such as the choosing half of a sweep, spend from an experiment's budget."""
        if experiment in self.budgets:
            self._shared[other] = self.budgets[experiment]

    def begin(self, experiment: str, arms_of: ArmsOf) -> None:
        """Announce an experiment; `arms_of` returns the arms that will send requests for a sample."""
        if (account := self.account(experiment)) is not None:
            account.arms_of = arms_of

    def release(self, experiment: str, sample: str, repeat: int, arm: str) -> None:
        """Free what an arm has reserved for a sample, for which it sends no more requests."""
        if (account := self.account(experiment)) is not None:
            account.release(sample, repeat, arm)

    def account(self, experiment: str) -> Account | None:
        """Return the account of an experiment; None if it has no budget."""
        if experiment not in self._accounts:
            own = self.budgets.get(experiment) or self._shared.get(experiment)
            budgets = tuple(budget for budget in (self.run, own) if budget is not None)
            self._accounts[experiment] = Account(budgets) if budgets else None
        return self._accounts[experiment]

    def close(self) -> None:
        for budget in (self.run, *self.budgets.values()):
            if budget is not None:
                budget.ledger.close()

    def _check_priced(self, budget: Budget, adapters: Sequence[str]) -> None:
        """Raise SpecError if dollars are limited and an adapter has no price."""
        name = next((adapter for adapter in adapters if adapter in self._unpriced), None)
        if name is None or budget.limit.usd == _INFINITE:
            return
        model = self._unpriced[name]
        what = f"model {model!r} of adapter {name!r}" if model else f"adapter {name!r}"
        where = f'[prices."{model}"] input = 0.15, output = 0.60, or ' if model else ""
        raise SpecError(
            f"a budget of {budget.text} needs the price of {what}, which is unknown: write {where}"
            f"price = {{ input = 0.15, output = 0.60 }} in the adapter, US dollars for a million tokens"
        )


class CostMeter:
    """Reserves the expected cost of one adapter's requests, and measures their actual cost."""

    def __init__(self, spending: Spending, price: Price | None) -> None:
        self._spending = spending
        self.price = price
        self._answers, self._written = 0, 0

    async def reserve(self, request: Request) -> Amount | None:
        """Reserve a request's cost before it is sent; None if there is no budget. Raises Spent and Refused."""
        account = self._spending.account(request.experiment)
        if account is None:
            return None
        read, written = prompt_tokens(request), self._answer_tokens(request)
        needed = _amount(self.price, read, written)
        is_dearest = self.price is None or self.price == self._spending.dearest
        await account.reserve(request, needed, needed if is_dearest else _amount(self._spending.dearest, read, written))
        return needed

    def settle(self, reserved: Amount, request: Request, outcome: Reply | BaseException) -> None:
        """Settle a finished request. Unless it is known to have cost less, it cost what was reserved."""
        account = self._spending.account(request.experiment)
        assert account is not None
        account.settle(reserved, self._spent(reserved, outcome))

    def cost(self, reply: Reply) -> float | None:
        """Return dollars; None if the price or the tokens are unknown."""
        if self.price is None:
            return None
        return self.price.of(reply.input_tokens, reply.output_tokens, reply.cached_input_tokens)

    def _spent(self, reserved: Amount, outcome: Reply | BaseException) -> Amount:
        if isinstance(outcome, Reply):
            read, written = outcome.input_tokens, outcome.output_tokens
            if written is not None:
                self._answers, self._written = self._answers + 1, self._written + written
            if read is None or written is None:
                return reserved
            return Amount(self.cost(outcome) or 0.0, read + written, 1.0)
        return Amount(requests=1.0) if _was_not_computed(outcome) else reserved

    def _answer_tokens(self, request: Request) -> float:
        parameters = request.parameters
        allowed = parameters.get("max_tokens") or parameters.get("max_completion_tokens")
        # Without a limit the answer may exceed the reservation: the only way past a budget, so it is generous.
        usual = LONGER * self._written / self._answers if self._answers else ANSWER_TOKENS
        many = parameters.get("n")
        return (float(allowed) if _is_count(allowed) else usual) * (many if _is_count(many) else 1)


def prompt_tokens(request: Request) -> float:
    """Estimate a prompt's tokens, rather too high than too low."""
    prompt = request.input
    if isinstance(prompt, list | tuple) and prompt and isinstance(prompt[0], int):
        return len(prompt)
    return len(prompt if isinstance(prompt, str) else str(prompt)) / CHARACTERS_A_TOKEN


def _amount(price: Price | None, read: float, written: float) -> Amount:
    usd = 0.0 if price is None else (price.input * read + price.output * written) / 1e6
    return Amount(usd, read + written, 1.0)


def _was_not_computed(error: BaseException) -> bool:
    """Return whether a failed request was certainly not billed.

    A server that answers with an error status has computed nothing; a broken connection may hide an answer that was billed.
    """
    if isinstance(error, BackendError) and error.kind:
        return error.kind.isdigit()
    return isinstance(error, BackendError)


def _is_count(value: Any) -> TypeGuard[int]:
    return is_whole(value) and value > 0


class Metered(Wrapper):
    """The innermost wrapper: each call is one request on the wire."""

    def __init__(self, inner: Backend, emit: Emit, meter: CostMeter | None = None, *, starts: bool = True) -> None:
        """`starts`: also publish the start of each request, which costs time when nothing listens."""
        super().__init__(inner)
        self._emit = emit
        self._starts = starts
        self._meter = meter or CostMeter(Spending(), None)

    @property
    def price(self) -> Price | None:
        """The price of the model's tokens; None if unknown."""
        return self._meter.price

    async def generate(self, request: Request) -> Reply:
        """Raises Spent, before sending, if the budget is exhausted; BackendError for an invalid reply."""
        meter = self._meter
        reserved = await meter.reserve(request)
        number = request.sent.add()
        if self._starts:
            self._emit(Event.about("request.start", request, number=number))
        started = time.perf_counter()
        try:
            reply = validate_reply(await self.inner.generate(request))
        # BaseException: a cancelled request was sent, too, and may be billed.
        except BaseException as error:
            if reserved is not None:
                meter.settle(reserved, request, error)
            seconds, facts = time.perf_counter() - started, {"error": error_kind(error)}
            self._emit(Event.about("request.stop", request, number=number, seconds=seconds, facts=facts))
            raise
        seconds = time.perf_counter() - started
        if reserved is not None:
            meter.settle(reserved, request, reply)
        cost = meter.cost(reply)
        facts = _usage_facts(reply, cost)
        self._emit(Event.about("request.stop", request, number=number, seconds=seconds, facts=facts))
        return _complete(reply, seconds, cost)


def error_kind(error: BaseException) -> str:
    """Return the class of an error for counting: `429`, `timeout`, `cancelled`, ..., else the type's name."""
    if isinstance(error, BackendError) and error.kind:
        return error.kind
    return "cancelled" if type(error).__name__ == "CancelledError" else type(error).__name__


def _usage_facts(reply: Reply, cost: float | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "finish": reply.finish,
        "cost_usd": cost,
    }
    if reply.first_token_s is not None:
        facts["first_token_s"] = reply.first_token_s
    if reply.model:
        facts["model"] = reply.model
    return facts


def _complete(reply: Reply, seconds: float, cost: float | None) -> Reply:
    # A backend that knows its latency better (a stream, a replay) reports its own.
    if reply.latency_s is None:
        return dataclasses.replace(reply, latency_s=seconds, cost_usd=cost)
    return reply if cost is None else dataclasses.replace(reply, cost_usd=cost)
