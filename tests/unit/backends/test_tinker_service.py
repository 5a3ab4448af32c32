"""Tinker services: addresses and keys, checks of their health, tokenizers of their models, and what closing restores."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_crucible.backends.tinker import service
from pytest_crucible.backends.tinker.service import (
    ServiceAddress,
    exempt_loopback,
    fetch_steps,
    proxy_variable,
    read_address,
)
from pytest_crucible.backends.tinker.services import SessionEnvironment, TinkerServices, ask_servers_for_tokenizers
from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.records.errors import SpecError

UNREACHABLE = "http://127.0.0.1:9"
KEY = "tml-0123456789abcdef"


def test_address_is_read_from_the_adapter():
    options = {"base_url": "https://tinker.example/", "api_key_env": "THEIRS", "project": "p1", "base_model": "m"}
    place = read_address("v2", options, {"THEIRS": KEY}, None)

    assert place == ServiceAddress("https://tinker.example", KEY, "p1")
    assert KEY not in repr(place)


def test_missing_parts_are_the_sessions():
    place = read_address("v2", {"project": "p1"}, {"TINKER_API_KEY": KEY}, "https://own")

    assert place == ServiceAddress("https://own", KEY, "p1")


@pytest.mark.parametrize(
    ("options", "environment", "sentence"),
    [
        ({"project": "p"}, {"TINKER_API_KEY": KEY}, "name the service with base_url"),
        ({"base_url": "ftp://a"}, {"TINKER_API_KEY": KEY}, "has base_url 'ftp://a': write http://... or https://..."),
        ({"base_url": ""}, {}, "has base_url = '': write base_url = "),
        ({"base_url": "http://a", "project": 3}, {}, "has project = 3: write project = "),
        ({"base_url": "http://a"}, {}, "needs a key for its Tinker service: set TINKER_API_KEY"),
        (
            {"base_url": "http://a", "api_key_env": "X"},
            {"X": "sk-1"},
            "X is not a Tinker key: it must start with 'tml-'",
        ),
    ],
)
def test_invalid_addresses_are_refused(options, environment, sentence):
    with pytest.raises(SpecError) as caught:
        read_address("v2", options, environment, None)

    assert sentence in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_loopback_is_exempt_from_proxies():
    environment = {"NO_PROXY": "intranet"}
    exempt_loopback("https://tinker.example", environment)
    assert environment == {"NO_PROXY": "intranet"}

    for _ in range(2):
        exempt_loopback("http://127.0.0.1:9", environment)
    assert environment == {"NO_PROXY": "intranet,127.0.0.1", "no_proxy": "127.0.0.1"}


def test_proxy_variable_is_named(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert proxy_variable("http://tinker.example") is None

    monkeypatch.setenv("ALL_PROXY", "http://proxy")
    assert proxy_variable("http://tinker.example") == "ALL_PROXY"
    monkeypatch.setenv("HTTP_PROXY", "http://proxy")
    assert proxy_variable("http://tinker.example:80/a") == "HTTP_PROXY"
    monkeypatch.setenv("NO_PROXY", "tinker.example")
    assert proxy_variable("http://tinker.example") is None


# -- health -----------------------------------------------------------------------------------------------------------


def test_an_unreachable_service_is_noticed_at_once():
    started = time.monotonic()

    with pytest.raises(SpecError, match=rf"Tinker at {UNREACHABLE} does not answer: "):
        service.check_answers(UNREACHABLE)
    assert time.monotonic() - started < service.HEALTH_S


def test_a_service_that_answers_with_errors_is_not_called_silent(monkeypatch):
    monkeypatch.setattr(service, "HEALTH_S", 0.5)
    monkeypatch.setattr(service, "_LOOK_S", 0.01)
    statuses, released = iter([503]), threading.Event()
    monkeypatch.setattr(service, "fetch_health", lambda url: next(statuses, None) or released.wait(60))

    with pytest.raises(SpecError, match=r"^Tinker at http://h responds only with status 503: try again later$"):
        service.check_answers("http://h")
    released.set()


def test_a_call_has_a_deadline():
    started, released = time.monotonic(), threading.Event()

    with pytest.raises(TimeoutError):
        service.run_within(0.2, lambda: released.wait(60))
    assert time.monotonic() - started < 30
    released.set()
    with pytest.raises(ValueError, match="of its own"):
        service.run_within(5, lambda: int("no number of its own"))
    assert service.run_within(5, lambda: 3) == 3


# -- what a session opens, changes and restores ------------------------------------------------------------------------


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


def test_environment_is_restored_when_closing_fails(services):
    before, monitor = dict(os.environ), Monitor()
    services._environment.set({"TINKER_BASE_URL": "ours", "TINKER_API_KEY": "tml-1"})
    services.__dict__["server"], services._monitors["url"] = Server(), monitor

    with pytest.raises(OSError, match="it does not stop"):
        services.close()

    assert monitor.is_closed
    assert dict(os.environ) == before
    services.close()  # nothing is left to be closed


# -- tokenizers -------------------------------------------------------------------------------------------------------


def make_sdk(directory: Path | None, *, is_private_there: bool = True) -> Any:
    """An SDK like 0.38: a sampling client knows its name, and can request its server's."""

    class SamplingClient:
        def __init__(self, name: str) -> None:
            self.name = name

        def get_base_model(self) -> str:
            return self.name

        def get_tokenizer(self) -> str:
            return f"the hub's {self.name}"

        def _get_sampler_submit(self) -> Future[Any]:
            response: Future[Any] = Future()
            response.set_result(SimpleNamespace(base_model=directory))
            return response

    if not is_private_there:
        del SamplingClient._get_sampler_submit
    return SimpleNamespace(SamplingClient=SamplingClient)


@pytest.mark.slow
def test_local_tokenizer_is_looked_up_at_the_server(tmp_path):
    pytest.importorskip("transformers")
    tokenizer = Engine.load_packaged().tokenizer
    tokenizer.save_for_transformers(tmp_path)
    sdk = make_sdk(tmp_path)
    ask_servers_for_tokenizers(sdk)

    assert sdk.SamplingClient(BASE_MODEL).get_tokenizer().encode("claim 7") == tokenizer.encode("claim 7")


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "/somewhere/models/crucible/tiny-12345678"])
def test_other_tokenizers_are_left_to_the_sdk(name):
    sdk = make_sdk(None)
    ask_servers_for_tokenizers(sdk)

    assert sdk.SamplingClient(name).get_tokenizer() == f"the hub's {name}"


def test_sdk_without_the_request_is_unchanged():
    sdk = make_sdk(None, is_private_there=False)
    ask_servers_for_tokenizers(sdk)

    assert sdk.SamplingClient(BASE_MODEL).get_tokenizer() == f"the hub's {BASE_MODEL}"


def test_lookup_is_undone():
    sdk = make_sdk(None)
    original = sdk.SamplingClient.get_tokenizer
    undo = ask_servers_for_tokenizers(sdk)
    assert sdk.SamplingClient.get_tokenizer is not original

    undo()

    assert sdk.SamplingClient.get_tokenizer is original


class _Lists(BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200 if self.headers["x-api-key"] == KEY else 401)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def lists():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Lists)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_steps_that_are_not_a_number_are_unknown_and_not_zero(lists):
    rows = [
        {"tinker_path": f"tinker://r/weights/{k}", "steps": steps} for k, steps in enumerate((5, None, "5", -1, True))
    ]
    _Lists.body = json.dumps({"checkpoints": [*rows, {"tinker_path": "tinker://r/weights/old"}]}).encode()

    assert list(fetch_steps(lists, KEY, "r").values()) == [5, None, None, None, None, None]
    assert fetch_steps(lists, "tml-other", "r") == {}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"checkpoints": 3}', b'{"checkpoints": ["x"]}', b'{"checkpoints": [{}]}']
)
def test_a_service_that_lists_garbage_states_no_steps(lists, body):
    _Lists.body = body

    assert fetch_steps(lists, KEY, "r") == {}
    assert fetch_steps(lists, KEY, "r\n") == fetch_steps(UNREACHABLE, KEY, "r") == {}
