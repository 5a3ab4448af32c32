"""The services of a session close whatever was opened, and leave the environment as it was."""

from __future__ import annotations

import os

import pytest

from pytest_crucible.backends.tinker.services import SessionEnvironment, TinkerServices


class Hide:
    """Redaction that removes nothing."""

    def __call__(self, text: str) -> str:
        return text

    def learn(self, *keys: str) -> None:
        pass


class Server:
    """A server that cannot be stopped."""

    process = None

    def stop(self) -> None:
        raise OSError("it does not stop")


class Monitor:
    """Notes that it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        raise OSError("it does not close")


@pytest.fixture
def services(tmp_path, monkeypatch) -> TinkerServices:
    monkeypatch.setenv("TINKER_BASE_URL", "theirs")
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    return TinkerServices(tmp_path, is_local=True, base=None, seed=0, wait_s=1.0, hide=Hide())


def test_environment_is_restored(monkeypatch):
    monkeypatch.setenv("CRUCIBLE_A", "before")
    monkeypatch.delenv("CRUCIBLE_B", raising=False)
    before = dict(os.environ)
    environment = SessionEnvironment()

    environment.set({"CRUCIBLE_A": "1", "CRUCIBLE_B": "1"})
    environment.set({"CRUCIBLE_A": "2"})
    assert (os.environ["CRUCIBLE_A"], os.environ["CRUCIBLE_B"]) == ("2", "1")

    environment.restore()
    assert dict(os.environ) == before
    environment.restore()
    assert dict(os.environ) == before


def test_removed_variable_is_restored(monkeypatch):
    monkeypatch.delenv("CRUCIBLE_A", raising=False)
    environment = SessionEnvironment()
    environment.set({"CRUCIBLE_A": "1"})
    del os.environ["CRUCIBLE_A"]

    environment.restore()

    assert "CRUCIBLE_A" not in os.environ


def test_environment_is_restored_when_closing_fails(services):
    before, monitor = dict(os.environ), Monitor()
    services._environment.set({"TINKER_BASE_URL": "ours", "TINKER_API_KEY": "tml-1"})
    services.__dict__["server"], services._monitors["url"] = Server(), monitor

    with pytest.raises(OSError, match="it does not stop"):
        services.close()

    assert monitor.is_closed
    assert dict(os.environ) == before
    services.close()  # nothing is left to be closed
