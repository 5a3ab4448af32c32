"""Nothing is sent that might not be paid for, and what is admitted is admitted in all arms."""

from __future__ import annotations

import asyncio

import pytest
import virtual_time
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import in_virtual_time

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.budget import UNLIMITED, Amount, SharedLedger, SpendLedger, read_budget
from pytest_crucible.backends.spending import Metered, Price, Prices, Spending, packaged_prices
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError, Spent

ADAPTER = Adapter(name="v2", backend="openai", asking={"price": {"input": 100, "output": 400}})
counts = st.integers(0, 1000)


class Server:
    """Takes a second, writes as many tokens as its number says, and counts what is under way."""

    identity, simulated = "server", True

    def __init__(self, writes: int | None = 10, error: Exception | None = None) -> None:
        self.writes, self.error, self.asked = writes, error, []

    async def generate(self, request: Request) -> Reply:
        self.asked.append((request.arm, request.sample))
        await asyncio.sleep(1)
        if self.error:
            raise self.error
        return Reply(text="4", input_tokens=10, output_tokens=self.writes)


def request(sample: int = 0, arm: str = "v2", **parameters) -> Request:
    settings = {"max_tokens": 10, **parameters}
    return Request(input="x" * 30, sample=str(sample), repeat=0, parameters=settings, experiment="e", arm=arm)


def ask(money: Spending, requests: list[Request], server: Server) -> list[Reply | BaseException]:
    """All at one time; each is over for its sample when it is answered."""
    backend = Metered(server, lambda event: None, money.meter(ADAPTER, "m"))

    async def generate(query: Request) -> Reply:
        try:
            return await backend.generate(query)
        finally:
            money.release("e", query.sample, query.repeat, query.arm)

    async def everything():
        return await asyncio.gather(*map(generate, requests), return_exceptions=True)

    return virtual_time.run(everything())


def count_replies(outcomes) -> int:
    return sum(isinstance(outcome, Reply) for outcome in outcomes)


# -- amounts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("5 USD", UNLIMITED._replace(usd=5)),
        ("$0.50", UNLIMITED._replace(usd=0.5)),
        ("5$", UNLIMITED._replace(usd=5)),
        (".5 usd", UNLIMITED._replace(usd=0.5)),
        ("200k tokens", UNLIMITED._replace(tokens=200_000)),
        ("1.5M tokens", UNLIMITED._replace(tokens=1_500_000)),
        ("1,000 requests", UNLIMITED._replace(requests=1000)),
        ("1 request", UNLIMITED._replace(requests=1)),
        ("5 USD,1,000 requests", UNLIMITED._replace(usd=5, requests=1000)),
        ("5 USD; 7 tokens", UNLIMITED._replace(usd=5, tokens=7)),
    ],
)
def test_budget_texts_are_read(text, limit):
    assert read_budget(text) == limit


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "USD", "0 USD", "-1 USD", "5,5 USD", "5 USD, 6 USD", "5 EUR", "1e3 USD", 5),
        *("$5 tokens", f"{'9' * 400} USD", "nan USD", "inf tokens", "5 B tokens"),
    ],
)
def test_invalid_budgets_are_refused(text):
    with pytest.raises(SpecError, match="cannot be read: write '5 USD', '200k tokens' or '1000 requests'"):
        read_budget(text)


@given(st.builds(Amount, counts, counts, counts), st.builds(Amount, counts, counts, counts))
def test_amount_within_other_plus_excess(first, other):
    assert first.within(other.plus(first.beyond(other)))
    assert any(first.beyond(other)) != first.within(other)


# -- purses ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["own", "shared", "two processes"])
def purses(request, tmp_path):
    """Two who count together."""
    if request.param == "own":
        ledger = SpendLedger()
        yield ledger, ledger
        return
    both = SharedLedger(tmp_path / "ledger", removes_file=True), SharedLedger(tmp_path / "ledger")
    yield both
    for ledger in both:
        ledger.close()

    assert not (tmp_path / "ledger").exists()


def test_shared_ledgers_see_each_others_reservations(purses):
    first, other = purses
    limit = Amount(1, 100, 3)

    assert first.take(Amount(0.5, 50, 2), limit)
    assert not other.take(Amount(0.5, 50, 2), limit)
    assert other.committed == Amount(0.5, 50, 2)
    assert other.spent == Amount()


def test_settling_frees_the_unspent_reservation(purses):
    first, other = purses
    first.take(Amount(1, 100, 3), Amount(1, 100, 3))
    other.settle(Amount(1, 100, 1), Amount(0.25, 20, 1))

    assert first.committed == Amount(0.25, 20, 3)
    assert first.spent == Amount(0.25, 20, 1)


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["7 requests", "140 tokens", "0.035 USD"])
def test_concurrent_requests_stay_within_the_budget(budget):
    money, server = Spending(budget), Server()
    outcomes = ask(money, [request(number) for number in range(50)], server)

    assert count_replies(outcomes) == len(server.asked) == 7
    assert all(isinstance(outcome, Reply | Spent) for outcome in outcomes)
    assert money.run.spent() == money.run.ledger.committed
    assert money.run.spent() == pytest.approx(Amount(0.035, 140, 7))


def test_request_waits_until_others_settle():
    """Each may write a hundred tokens and writes ten: the budget is for six of them, and not for one at its longest."""
    server = Server()
    outcomes = ask(Spending("230 tokens"), [request(number, max_tokens=100) for number in range(20)], server)

    assert 5 <= count_replies(outcomes) <= 8


@in_virtual_time
async def test_unused_reservation_of_an_arm_is_released():
    money, server = Spending("4 requests"), Server()
    money.begin("e", lambda sample, repeat: ("v1", "v2"))
    backend = Metered(server, lambda event: None, money.meter(ADAPTER, "m"))
    for number in range(3):
        await backend.generate(request(number))
        for arm in ("v1", "v2"):
            money.release("e", str(number), 0, arm)
    assert money.run.ledger.committed.requests == 3


@in_virtual_time
async def test_an_arm_without_announcement_reserves_the_requests_of_an_average_sample():
    """Two requests a sample so far, and one is left: the arm is refused at its first, and not in the middle of a sample."""
    money, server = Spending("3 requests"), Server()
    backend = Metered(server, lambda event: None, money.meter(ADAPTER, "m"))
    for _ in range(2):
        await backend.generate(request(arm="v1"))
    money.release("e", "0", 0, "v1")

    with pytest.raises(Spent):
        await backend.generate(request(arm="v2"))
    assert server.asked == [("v1", "0"), ("v1", "0")]


def test_retries_count_against_the_budget():
    money, server = Spending("3 requests"), Server(error=Retryable("busy", kind="503"))
    outcomes = ask(money, [request(0)] * 5, server)

    assert [type(outcome) for outcome in outcomes].count(Retryable) == len(server.asked) == 3
    assert money.run.spent() == Amount(0, 0, 3)


@pytest.mark.parametrize(
    ("error", "tokens"),
    [
        (Retryable("busy", kind="429"), 0),
        (BackendError("no"), 0),
        (Retryable("cut", kind="connection"), 20),
        (Retryable("late", kind="timeout"), 20),
        (Retryable("?", kind="garbage"), 20),
    ],
)
def test_broken_requests_cost_their_reservation(error, tokens):
    money = Spending("1000 tokens")
    ask(money, [request()], Server(error=error))

    assert money.run.spent().tokens == tokens
    assert money.run.spent() == money.run.ledger.committed


@in_virtual_time
async def test_cancelled_request_costs_its_reservation():
    money = Spending("1000 tokens")
    backend = Metered(Server(), lambda event: None, money.meter(ADAPTER, "m"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await backend.generate(request())
    assert money.run.spent() == pytest.approx(Amount(0.005, 20, 1))


def test_reply_without_token_counts_costs_its_reservation():
    money = Spending("1000 tokens")
    (reply,) = ask(money, [request()], Server(writes=None))

    assert money.run.spent().tokens == 20
    assert reply.cost_usd is None


@in_virtual_time
async def test_request_waiting_for_budget_can_be_cancelled():
    money, server = Spending("20 tokens"), Server()
    backend = Metered(server, lambda event: None, money.meter(ADAPTER, "m"))
    first = asyncio.create_task(backend.generate(request(0)))
    second = asyncio.create_task(backend.generate(request(1)))
    await asyncio.sleep(0.5)
    second.cancel()
    await asyncio.wait((first, second))

    assert second.cancelled()
    assert len(server.asked) == 1
    assert money.run.ledger.committed.requests == 1


def test_stricter_of_run_and_experiment_budget_holds():
    money, server = Spending("5 requests"), Server()
    money.allow("e", "3 requests", ["v2"])

    assert count_replies(ask(money, [request(number) for number in range(9)], server)) == 3
    assert money.run.ledger.committed == money.budgets["e"].ledger.committed


def test_a_budget_below_one_sample_stops_the_experiment():
    money = Spending("15 tokens")
    (outcome,) = ask(money, [request()], Server())

    assert isinstance(outcome, Refused)
    assert str(outcome) == (
        "a budget of 15 tokens does not pay for one sample, which may take 20 tokens: allow more, or set a smaller max_tokens"
    )


@given(st.integers(1, 60), st.integers(1, 3), st.integers(1, 40), st.integers(1, 30))
def test_a_budget_is_never_exceeded_and_arms_are_treated_alike(limit, arms, samples, writes):
    money, server = Spending(f"{limit} requests, {limit * 15} tokens"), Server(writes=min(writes, 10))
    names = [f"v{number}" for number in range(arms)]
    money.begin("e", lambda sample, repeat: names)
    ask(money, [request(number, arm) for number in range(samples) for arm in names], server)
    of = [{sample for name, sample in server.asked if name == arm} for arm in names]

    assert money.run.ledger.committed.within(money.run.limit)
    assert money.run.ledger.committed == pytest.approx(money.run.spent())
    assert all(samples == of[0] for samples in of)


@pytest.mark.parametrize(
    ("cached_price", "cached_tokens", "cost"),
    [(0.5, 800, 0.0029), (None, 800, 0.0045), (0.5, None, 0.0045), (0.5, 5_000, 0.0025), (0.0, 1_000, 0.002)],
)
def test_cached_prompt_tokens_cost_their_own_price_in_replies_and_budgets(cached_price, cached_tokens, cost):
    price = {"input": 2.5, "output": 10.0} | ({} if cached_price is None else {"cached": cached_price})
    adapter = Adapter(name="v2", backend="openai", asking={"price": price})
    reply = Reply(text="4", input_tokens=1_000, output_tokens=200, cached_input_tokens=cached_tokens)
    money = Spending("1 USD")
    server = ScriptedBackend(lambda request: reply, identity="cached")
    backend = Metered(server, lambda event: None, money.meter(adapter, "m"))

    assert virtual_time.run(backend.generate(request())).cost_usd == pytest.approx(cost)
    assert money.run.spent().usd == pytest.approx(cost)


# -- prices ------------------------------------------------------------------------------------------------------------


def test_packaged_prices_have_date_and_source():
    import tomllib
    from importlib import resources

    rows = tomllib.loads(resources.files("pytest_crucible.backends").joinpath("prices.toml").read_text())

    assert set(packaged_prices()) == set(rows)
    for row in rows.values():
        assert set(row) == {"input", "output", "dated", "source"}
        assert 0 < row["input"] < row["output"]
        assert row["dated"].startswith("202")
        assert row["source"].startswith("https://")


def test_prices_of_models():
    table = {"gpt-4o*": {"input": 1, "output": 2}, "*": {"input": 3, "output": 4}, "m": {"input": 5, "output": 6}}
    plain, local = Adapter(name="v2", backend="openai"), Adapter(name="tiny", backend="local")
    own = Prices(table)

    assert [own.of(ADAPTER, "m").input, own.of(plain, "m").input] == [100, 5]
    assert [own.of(plain, "gpt-4o-mini").input, own.of(plain, "other").input] == [1, 3]
    assert Prices().of(plain, "gpt-4o-2024-05-13") is None
    assert Prices().of(local, "", is_free=True).of(1000, 1000) == 0
    assert Prices().of(plain, "gpt-4o-mini").of(100, 50) == pytest.approx(4.5e-5)
    assert Prices().of(plain, "gpt-4o-mini").of(None, 50) is None


def test_a_checkpoint_costs_what_its_base_costs():
    entry = {"input": 1, "output": 2, "cached": 0.5}
    prices = Prices({"*": {"input": 9, "output": 9}, "tinker:Qwen/Qwen3-8B": entry})
    adapter, path, bases = (
        Adapter(name="v2", backend="tinker"),
        "tinker://r/sampler_weights/x",
        ("tinker:Qwen/Qwen3-8B",),
    )

    assert prices.of(adapter, path, bases=bases) == Price(1.0, 2.0, 0.5)
    assert prices.of(adapter, path).input == 9
    with pytest.raises(SpecError, match=r"needs the price of model .tinker:Qwen/Qwen3-8B. of adapter .v2."):
        Spending("5 USD").meter(adapter, path, bases=bases)


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {"input": 1},
        {"input": 1, "output": 1, "cached": -1},
        {"input": 1, "output": 1, "train": 2},
        {"input": 1, "output": True},
        {"input": 1, "output": float("inf")},
    ],
)
def test_invalid_prices_are_refused(entry):
    with pytest.raises(SpecError, match=r"which is not a price: write \{ input = 0.15, output = 0.60 \}"):
        Prices({"m": entry})


def test_dollar_budget_needs_a_price():
    money = Spending("5 USD")

    with pytest.raises(SpecError, match=r"needs the price of model 'mystery' of adapter 'v3', which is unknown"):
        money.meter(Adapter(name="v3", backend="openai"), "mystery")
    assert Spending("5 tokens").meter(Adapter(name="v3", backend="openai"), "mystery")
