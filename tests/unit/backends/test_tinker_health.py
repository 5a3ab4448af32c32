"""Signs of life: when waiting is in vain, and when it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_crucible.backends.tinker import health as pulses
from pytest_crucible.backends.tinker.health import BUSY_S, GONE_S, QUIET_S, HealthMonitor
from pytest_crucible.records.errors import Refused, Retryable


class APIConnectionError(Exception):
    """An error with the name that the SDK gives it."""


class Answered(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("no")
        self.status_code = status


@pytest.fixture
def clock() -> Any:
    return SimpleNamespace(now=100.0)


@pytest.fixture
def pulse(clock, monkeypatch) -> Iterator[HealthMonitor]:
    """One that is never asked after its health."""
    monkeypatch.setattr(HealthMonitor, "_ask_after_health", lambda self: None)
    monitor = HealthMonitor("Tinker", lambda: None, clock=lambda: clock.now)
    yield monitor
    monitor.close()


def test_healthy_service_is_waited_for(pulse, clock):
    for _ in range(5):
        clock.now += 1000
        pulse.heard(None)
        pulse.check(1000)


def test_silent_service_is_gone_for_all_requests(pulse, clock):
    pulse.heard(APIConnectionError("Connection error."))
    clock.now += GONE_S - 0.1
    pulse.check()
    clock.now += 0.2

    with pytest.raises(Retryable, match=r"^Tinker does not answer any more: Connection error$") as raised:
        pulse.check()
    assert raised.value.kind == "connection"
    pulse.heard(Answered(404))  # whatever it says
    pulse.check()


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_busy_service_fails_requests_that_waited(pulse, clock, status):
    pulse.heard(Answered(status))
    clock.now += BUSY_S + 1
    pulse.check(1.0)

    with pytest.raises(Retryable, match=f"only with status {status} for 30 s") as raised:
        pulse.check(BUSY_S)
    assert raised.value.kind == str(status)
    pulse.heard(None)
    pulse.check(BUSY_S)


@pytest.mark.parametrize("status", [400, 404, 408, 410, 422])
def test_refusal_shows_a_live_service(pulse, clock, status):
    pulse.heard(Answered(status))
    clock.now += 1000

    pulse.check(1000)


def test_unpaid_account_stops_the_experiment(pulse, clock):
    pulse.heard(Answered(402))
    clock.now += GONE_S

    with pytest.raises(Refused, match="requires payment"):
        pulse.check(GONE_S)


def test_sdk_errors_do_not_change_health(pulse, clock):
    pulse.heard(RuntimeError("closed"))
    clock.now += 1000

    pulse.check(1000)


def test_monitor_records_client_responses(pulse, clock):
    class Holder:
        @contextmanager
        def aclient(self, kind: str) -> Iterator[str]:
            yield kind

    holder = Holder()
    pulse.listen(holder)
    kinds = [SimpleNamespace(name=name) for name in ("SAMPLE", "SESSION")]
    with pytest.raises(Answered), holder.aclient(kinds[0]):
        raise Answered(503)
    clock.now += BUSY_S
    with holder.aclient(kinds[1]):
        pass
    with pytest.raises(Retryable):
        pulse.check(BUSY_S)
    with holder.aclient(kinds[0]) as client:
        assert client == kinds[0]
    pulse.check(BUSY_S)
    pulse.listen(object())  # of another version of the SDK


def test_heartbeat_proves_only_the_connection(pulse, clock):
    pulse.heard(Answered(503))
    clock.now += BUSY_S
    pulse.heard(None, aside=True)
    with pytest.raises(Retryable, match="only with status 503"):
        pulse.check(BUSY_S)

    pulse.heard(None)
    pulse.heard(Answered(503), aside=True)  # and one that fails does not make it busy
    pulse.heard(APIConnectionError("cut"))
    clock.now += BUSY_S
    pulse.heard(None, aside=True)
    pulse.check(BUSY_S)


def test_silence_is_probed_and_the_thread_ends(monkeypatch):
    monkeypatch.setattr(pulses, "QUIET_S", 0.02)
    monkeypatch.setattr(pulses, "GONE_S", 0.05)
    is_probed = threading.Event()

    def probe() -> None:
        is_probed.set()
        raise OSError("refused")

    def until_it_is_gone() -> None:
        while True:
            pulse.check()
            is_probed.wait(0.01)

    pulse = HealthMonitor("Tinker", probe)
    with pytest.raises(Retryable, match="refused"):
        until_it_is_gone()
    pulse.close()

    assert QUIET_S == 1.0
    assert not [thread for thread in threading.enumerate() if thread.name == "tinker-pulse"]
