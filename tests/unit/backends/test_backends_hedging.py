"""A second request for what takes too long: the first answer counts, and what is learned accounts for what was cut off."""

from __future__ import annotations

import asyncio
import functools
import math
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import virtual_time
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import in_virtual_time

from pytest_crucible.backends.context import ignore_event
from pytest_crucible.backends.hedging import (
    AdaptiveDelay,
    FixedDelay,
    Hedge,
    Hedged,
    Latency,
    PercentileDelay,
    WorkloadDelay,
    quantile,
    read_hedge,
    size_of,
    survival_curve,
)
from pytest_crucible.records import Adapter, Event, Reply, Request
from pytest_crucible.records.errors import BackendError, Retryable, SpecError

seconds = st.floats(0.001, 100)


def request(sample: int = 0, **parameters) -> Request:
    return Request(input="2 + 2", sample=str(sample), repeat=0, parameters=parameters, experiment="e", arm="v2")


class Server:
    """Takes as long as `takes` returns for each request in turn, or fails."""

    identity = "server"
    simulated = True

    def __init__(self, takes: Callable[[int], float | Exception]) -> None:
        self.takes = takes
        self.asked = 0
        self.cancelled = 0
        self.under_way = 0

    async def generate(self, request: Request) -> Reply:
        number, self.asked = self.asked, self.asked + 1
        took = self.takes(number)
        self.under_way += 1
        try:
            await asyncio.sleep(0.01 if isinstance(took, Exception) else took)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        if isinstance(took, Exception):
            raise took
        return Reply(text=str(number), latency_s=took)


def hedge(server: Server, *, delay: float = 1.0, extra: float = 1.0, emit=ignore_event, spares=None) -> Hedged:
    return Hedged(server, Hedge(FixedDelay(delay), extra), spares, emit)


def ask(backend, count: int = 1) -> tuple[list[Reply], list[float]]:
    """Replies to questions one after another, and how long each took."""

    async def all_of_them():
        replies, took = [], []
        for number in range(count):
            started = asyncio.get_running_loop().time()
            replies.append(await backend.generate(request(number)))
            took.append(asyncio.get_running_loop().time() - started)
        return replies, took

    return virtual_time.run(all_of_them())


# -- asking twice -----------------------------------------------------------------------------------------------------


def test_quick_request_is_not_hedged():
    server = Server(lambda number: 0.5)
    replies, took = ask(hedge(server))

    assert (replies[0].text, server.asked, server.cancelled) == ("0", 1, 0)
    assert took == [pytest.approx(0.5)]


def test_slow_request_is_hedged_and_first_reply_wins():
    server, events = Server([30.0, 0.2].__getitem__), []
    replies, took = ask(hedge(server, emit=events.append))

    assert replies[0].text == "1"
    assert took == [pytest.approx(1.2)]
    assert replies[0].latency_s == pytest.approx(1.2)
    assert (server.asked, server.cancelled, server.under_way) == (2, 1, 0)
    assert [event.name for event in events] == ["hedge.fired", "hedge.won"]
    assert isinstance(events[0], Event)
    assert (events[0].sample, events[0].arm, events[0].facts) == ("0", "v2", {"delay_s": 1.0})


def test_streamed_request_is_not_hedged():
    server = Server(lambda number: 30.0)
    streamed = replace(request(), open_stream=lambda: print)
    virtual_time.run(hedge(server).generate(streamed))

    assert server.asked == 1


def test_hedge_is_cancelled_when_the_first_reply_arrives():
    server, events = Server([1.5, 30.0].__getitem__), []
    replies, took = ask(hedge(server, emit=events.append))

    assert (replies[0].text, took) == ("0", [pytest.approx(1.5)])
    assert (server.asked, server.cancelled, server.under_way) == (2, 1, 0)
    assert [event.name for event in events] == ["hedge.fired"]


def test_early_failure_is_not_hedged():
    server = Server(lambda number: Retryable("busy", kind="503"))

    with pytest.raises(Retryable):
        ask(hedge(server))
    assert server.asked == 1


def test_failure_of_the_hedge_waits_for_the_first():
    server = Server([3.0, Retryable("busy", kind="503")].__getitem__)
    replies, took = ask(hedge(server))

    assert (replies[0].text, took) == ("0", [pytest.approx(3.0)])


def test_first_error_is_raised_when_both_fail():
    async def slow_to_fail(request):
        await asyncio.sleep(2)
        raise BackendError("first")

    class Failing(Server):
        async def generate(self, request):
            self.asked += 1
            if self.asked == 1:
                return await slow_to_fail(request)
            raise BackendError("second")

    with pytest.raises(BackendError, match="first"):
        ask(hedge(Failing(lambda number: 0.0)))


@in_virtual_time
async def test_cancellation_cancels_both_requests():
    server = Server(lambda number: 30.0)
    task = asyncio.create_task(hedge(server).generate(request()))
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.wait((task,))

    assert (task.cancelled(), server.under_way) == (True, 0)
    assert server.cancelled == 2


class NoRoom:
    """A limiter that backs off."""

    def try_spare(self):
        return None


def test_no_hedge_without_a_spare_permit():
    server = Server(lambda number: 1.5)
    ask(hedge(server, spares=NoRoom()), 20)

    assert server.asked == 20


class Room:
    """A limiter with room, which counts."""

    def __init__(self) -> None:
        self.given, self.released = 0, []

    def try_spare(self):
        self.given += 1
        return self

    def release(self, outcome=None) -> None:
        self.released.append(outcome)


def test_permits_are_released_with_their_outcome():
    room, server = Room(), Server([30.0, 0.2, 1.5, 30.0].__getitem__)
    ask(hedge(server, spares=room), 2)

    assert room.given == 2
    assert room.released[0].text == "1"
    assert isinstance(room.released[1], asyncio.CancelledError)


def test_unused_permit_is_released():
    room, server = Room(), Server(lambda number: 1.5)
    ask(hedge(server, extra=0.01, spares=room), 3)

    assert server.asked == 3
    assert room.released == [None] * room.given


# -- what is learned ---------------------------------------------------------------------------------------------------


def test_survival_curve_matches_r():
    """Remission of 21 leukaemia patients: R's survfit gives .857, .807, .753, .690, .627, .538, .448."""
    ended = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    cut = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    curve = survival_curve([*map(Latency, ended), *(Latency(censored, cut_off=True) for censored in cut)])

    assert [time for time, _ in curve] == [6, 7, 10, 13, 16, 22, 23]
    assert [share for _, share in curve] == pytest.approx(
        [0.857143, 0.806723, 0.752941, 0.690196, 0.627451, 0.537815, 0.448179], abs=1e-6
    )
    assert quantile(curve, 0.5) == 23
    assert quantile(curve, 0.9) == math.inf


@given(st.lists(seconds, min_size=1, max_size=60), st.floats(0.05, 0.95))
def test_quantile_without_censoring_is_the_ordinary_one(values, share):
    estimate = quantile(survival_curve(map(Latency, values)), share)

    assert estimate == np.quantile(values, share, method="inverted_cdf")


def test_no_hedge_before_min_samples():
    delay = PercentileDelay(0.95, begin=20)
    for _ in range(19):
        delay.learn(request(), Latency(1.0), delay=math.inf, hedged=False)

    assert delay.of(request()) == math.inf
    delay.learn(request(), Latency(1.0), delay=math.inf, hedged=False)
    assert delay.of(request()) == 1.0


def test_workload_delay_grows_with_size():
    delay, draws = WorkloadDelay(0.9, begin=20), random.Random(0)
    for _ in range(300):
        tokens = draws.choice([100, 1000])
        took = tokens / 100 * draws.uniform(0.9, 1.1)
        delay.learn(request(max_tokens=tokens), Latency(took), delay=math.inf, hedged=False)

    assert delay.of(request(max_tokens=100)) == pytest.approx(1.08, rel=0.15)
    assert delay.of(request(max_tokens=1000)) == pytest.approx(10.8, rel=0.15)


def test_size_counts_prompt_and_allowed_reply():
    messages = [{"role": "user", "content": "x" * 1000}]

    assert size_of(Request(input=messages, sample="a", repeat=0, parameters={"max_tokens": 250})) == 2.0
    assert size_of(Request(input=[1, 2, 3], sample="a", repeat=0)) == 0.003


def train_delay(law: Callable[[random.Random], float], seed: int) -> AdaptiveDelay:
    """Return a delay that has learned from fifteen hundred requests."""
    draws, delay = random.Random(seed), AdaptiveDelay(begin=20, seed=seed)
    for number in range(1_500):
        query = request(number)
        wait, took = delay.of(query), law(draws)
        second = wait + law(draws)
        hedge = took > wait
        delay.learn(query, Latency(min(took, second), cut_off=hedge and second < took), delay=wait, hedged=hedge)
    return delay


def trials(delay: AdaptiveDelay) -> dict[float, float]:
    return {share: sum(law) - 2 for share, law in delay._beliefs.items()}


def test_adaptive_delay_hedges_on_a_heavy_tail():
    tail = trials(train_delay(lambda draws: 20.0 if draws.random() < 0.03 else draws.uniform(0.9, 1.1), 3))

    assert tail[1.0] < max(tail.values())
    assert max(tail, key=tail.get) in (0.90, 0.95)


def test_adaptive_delay_rarely_hedges_even_latencies():
    even = trials(train_delay(lambda draws: draws.uniform(0.95, 1.0), 3))

    assert even[1.0] + even[0.99] > even[0.75] + even[0.90]


def test_adaptive_delay_is_reproducible_by_seed():
    first, other = (train_delay(lambda draws: draws.expovariate(1), 7) for _ in range(2))

    assert first._beliefs == other._beliefs


def test_at_most_ten_hedges_are_saved_up():
    server = Server(lambda number: 0.5 if number < 1000 else 1.5)
    ask(hedge(server, extra=0.5), 1000 + 20)

    assert server.asked == 1000 + 20 + 10 + 9  # what was saved, and what is earned while it is spent


# -- the whole, on three laws of latency --------------------------------------------------------------------------------

LAWS: dict[str, Callable[[random.Random, int], float]] = {
    "heavy tail": lambda draws, n: draws.uniform(0.045, 0.055) * (20 if draws.random() < 0.01 else 1),
    "two humps": lambda draws, n: draws.gauss(0.05, 0.004) if draws.random() < 0.9 else draws.gauss(0.2, 0.01),
    "slow drift": lambda draws, n: draws.uniform(0.045, 0.055) * (1 + n / 4000) * (20 if draws.random() < 0.01 else 1),
}


class Drawn(Server):
    """Draws the latency of each request; a drift follows the question, however often it is asked."""

    def __init__(self, law: str) -> None:
        self.draws = random.Random(11)
        super().__init__(lambda number: 0.0)
        self.law = LAWS[law]

    async def generate(self, request: Request) -> Reply:
        took = max(0.001, self.law(self.draws, int(request.sample)))
        self.takes = lambda number: took
        return await super().generate(request)


def simulate(law: str, settings: dict | None, questions: int = 3_000) -> tuple[np.ndarray, float]:
    """Latencies, and requests a question."""
    server = Drawn(law)
    backend = server
    if settings is not None:
        adapter = Adapter(name="v2", backend="openai", asking={"hedge": settings})
        backend = Hedged(server, read_hedge(adapter, 0), None, ignore_event)
    _, took = ask(backend, questions)
    return np.array(took), server.asked / questions


@pytest.mark.parametrize("strategy", ["percentile", "workload"])
def test_heavy_tail_is_60_percent_faster_for_6_percent_more_requests(strategy):
    alone = simulate_alone("heavy tail")
    took, requests = simulate("heavy tail", {"strategy": strategy, "percentile": 95, "max_extra": 0.1})

    assert slowest(took) <= 0.4 * slowest(alone)
    assert requests <= 1.06
    assert np.quantile(took, 0.5) <= 1.02 * np.quantile(alone, 0.5)


@functools.cache
def simulate_alone(law: str) -> np.ndarray:
    return simulate(law, None)[0]


def slowest(took: np.ndarray) -> float:
    """Mean of the slowest hundredth: where one of a hundred is slow, the 99th percentile itself is a coin toss."""
    return float(np.sort(took)[-len(took) // 100 :].mean())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "percentile"},
        {"strategy": "workload"},
        {"strategy": "adaptive"},
        {"strategy": "fixed", "delay_s": 0.08},
    ],
    ids=lambda settings: settings["strategy"],
)
def test_no_strategy_is_slower_or_exceeds_max_extra(law, settings):
    alone = simulate_alone(law)
    took, requests = simulate(law, {**settings, "max_extra": 0.1})

    assert np.quantile(took, 0.5) <= 1.03 * np.quantile(alone, 0.5)
    assert slowest(took) <= 1.02 * slowest(alone)
    assert requests <= 1.1


# -- settings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_settings", "sentence"),
    [
        (
            "percentile",
            "hedge = 'percentile': write a table with strategy = one of fixed, percentile, adaptive, workload",
        ),
        ({"strategy": "magic"}, "write a table with strategy = one of"),
        ({"strategy": "fixed"}, "hedges with strategy 'fixed' but has no delay: add delay_s = 0.5"),
        ({"strategy": "fixed", "delay_s": -1}, "hedge.delay_s = -1: write seconds, such as 0.5"),
        ({"strategy": "fixed", "delay_s": True}, "hedge.delay_s = True: write seconds"),
        ({"strategy": "percentile", "percentile": 100}, "hedge.percentile = 100: write a number from 50 to below 100"),
        (
            {"strategy": "percentile", "delay_s": 1},
            "hedge.delay_s, which strategy 'percentile' does not have; expected",
        ),
        ({"strategy": "adaptive", "max_extra": 0}, "hedge.max_extra = 0: write a share above 0"),
        ({"strategy": ["fixed"]}, "hedge = {'strategy': ['fixed']}: write a table with strategy = one of"),
        ({"strategy": "adaptive", "min_samples": math.inf}, "hedge.min_samples = inf: write a whole number"),
        ({"strategy": "fixed", "delay_s": math.nan}, "hedge.delay_s = nan: write seconds"),
        ({"strategy": "adaptive", "min_samples": 5.5}, "hedge.min_samples = 5.5: write a whole number"),
    ],
)
def test_invalid_hedge_settings_are_refused(given_settings, sentence):
    with pytest.raises(SpecError) as raised:
        read_hedge(Adapter(name="v2", backend="openai", asking={"hedge": given_settings}), 0)

    assert sentence in str(raised.value)


def test_adapter_without_hedge_setting():
    assert read_hedge(Adapter(name="v2", backend="openai"), 0) is None
