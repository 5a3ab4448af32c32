"""Limits that users set and servers report."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
from asking import adapter, request
from hypothesis import given
from hypothesis import strategies as st
from simulated_servers import SimulatedServer
from virtual_time import in_virtual_time

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.limiting.control import Limits, read_limits
from pytest_crucible.backends.limiting.history import PERIODS_S, certain_rate
from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import SpecError


def test_set_limits_are_read_and_others_infinite():
    assert read_limits(adapter()) == Limits()
    assert read_limits(adapter(limit={"requests_per_second": 0.5})) == Limits(requests_per_second=0.5)
    assert read_limits(adapter(limit={"concurrency": 8, "tokens_per_minute": 1000})) == Limits(
        concurrency=8, tokens_per_minute=1000
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (50, "has limit = 50: write limit = { requests_per_second = 50 }"),
        ({"rps": 50}, "has an unknown limit 'rps'; expected concurrency, requests_per_second, tokens_"),
        ({"concurrency": 0}, "has a limit of concurrency = 0: write a whole number from 1"),
        ({"concurrency": 2.5}, "has a limit of concurrency = 2.5: write a whole number from 1"),
        ({"concurrency": True}, "has a limit of concurrency = True: write a whole number from 1"),
        ({"requests_per_second": -1}, "has a limit of requests_per_second = -1: write a number above 0"),
        ({"requests_per_second": math.inf}, "has a limit of requests_per_second = inf: write a number above 0"),
        ({"tokens_per_minute": "1000"}, "has a limit of tokens_per_minute = '1000': write a number above 0"),
    ],
)
def test_invalid_limits_are_refused(wrong, sentence):
    with pytest.raises(SpecError, match=f"^adapter 'v2' {re.escape(sentence)}"):
        read_limits(adapter(limit=wrong))


# -- told by the server ---------------------------------------------------------------------------------------------


@given(st.sampled_from(PERIODS_S), st.integers(100, 100_000), st.integers(3, 90))
def test_consistent_headers_give_a_rate(period, limit, used):
    assert certain_rate(limit, limit - used, used * period / limit) == limit / period


@pytest.mark.parametrize(
    ("limit", "remaining", "reset_s"),
    [
        (None, 10, 1.0),
        (3000, None, 1.0),
        (3000, 2990, None),
        (3000, 2990, 0.0),
        (3000, 2999, 0.02),  # so little was used that it may be chance
        (3000, 0, 0.02),  # when one more is allowed, not when all are
        (3000, 2990, 59.0),  # when the window ends
        (50, 100, 1.0),
    ],
)
def test_inconsistent_headers_give_no_rate(limit, remaining, reset_s):
    assert certain_rate(limit, remaining, reset_s) is None


class Telling(SimulatedServer):
    """Says with each answer that it takes 600 requests a minute, and that 4 of them were used."""

    reported_limits = SimpleNamespace(
        limit_requests=600,
        remaining_requests=596,
        reset_requests_s=0.4,
        limit_tokens=None,
        remaining_tokens=None,
        reset_tokens_s=None,
    )


@in_virtual_time
async def test_reported_limit_is_respected_before_any_refusal():
    server = Telling(latency_s=0.001, spread=0.0)
    top = wrap_backend(server, adapter(), BackendContext())
    for number in range(100):
        await top.generate(request(str(number)))
    assert server.accepted_rate(2, 8) == pytest.approx(10, rel=0.1)


# -- where a limit applies ------------------------------------------------------------------------------------------


class Function:
    """A backend that asks no server."""

    identity = "function"
    simulated = True

    async def generate(self, request: Request) -> Reply:
        return Reply(text="4")


@pytest.mark.parametrize(
    ("backend", "asking", "limited"),
    [(Function(), {}, False), (Function(), {"limit": {"concurrency": 1}}, True), (SimulatedServer(), {}, True)],
    ids=["function", "function with a limit", "server"],
)
def test_servers_are_limited_and_functions_only_when_set(backend, asking, limited):
    limiters = Limiters()

    wrap_backend(backend, adapter(**asking), BackendContext(limiters=limiters))

    assert bool(limiters._limiters) is limited
