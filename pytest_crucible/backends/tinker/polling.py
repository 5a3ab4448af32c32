"""Deadlines around calls of the SDK, which itself waits for minutes: for a missing service, for a client, for closing."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from pytest_crucible.backends.tinker.service_address import proxy_variable
from pytest_crucible.records.errors import SpecError

T = TypeVar("T")

HEALTH_S = 5.0
"""A service that does not respond for this long is reported as dead: the SDK would retry for 303 s."""
CLOSE_S = 5.0
LEAVE_S = 1.0
"""Time to close a client whose service is gone: it would go on sending telemetry to it."""
_LOOK_S = 0.2


def run_within(seconds: float, call: Callable[[], T], check: Callable[[float], None] = lambda waited_s: None) -> T:
    """Return the result of a call, or raise its error or that of `check`. Raises TimeoutError when it is late.

    The thread of a late call is left running, because Python cannot stop it.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    # A daemon, because a call that never returns must not keep the process from ending.
    threading.Thread(target=run, name="tinker-call", daemon=True).start()
    started = time.monotonic()
    while not future.done():
        waited_s = time.monotonic() - started
        if waited_s > seconds:
            raise TimeoutError
        check(waited_s)
        with contextlib.suppress(TimeoutError):
            future.exception(timeout=min(_LOOK_S, max(seconds - waited_s, 0.0)))
    return future.result()


def resolve_future(client: Any) -> Any:
    """Return the client itself: since SDK 0.38 clients are made as futures."""
    return client.result() if hasattr(client, "result") else client


def check_answers(url: str) -> None:
    """Raise SpecError unless a service responds without an error, through the proxy that the SDK would use."""
    end = time.monotonic() + HEALTH_S
    status = 0
    try:
        while (
            status := run_within(max(end - time.monotonic(), _LOOK_S), lambda: fetch_health(url))
        ) >= 500 or status == 429:
            if time.monotonic() > end - 2 * _LOOK_S:
                raise SpecError(f"Tinker at {url} responds only with status {status}: try again later")
            time.sleep(_LOOK_S)
    except TimeoutError:
        if status:  # only the last of several responses is late
            raise SpecError(f"Tinker at {url} responds only with status {status}: try again later") from None
        raise SpecError(f"Tinker at {url} does not answer within {HEALTH_S:g} s{_by_proxy(url)}") from None
    except Unreachable as error:
        raise SpecError(f"Tinker at {url} does not answer: {error}{_by_proxy(url)}") from None


def wait_for_service(name: str, url: str, wait_s: float) -> None:
    """Return when a service answers without an error. Raises SpecError when it does not within `wait_s`."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        with contextlib.suppress(Unreachable):
            if fetch_health(url, patience_s=min(HEALTH_S, wait_s)) < 500:
                return
        time.sleep(_LOOK_S)
    raise SpecError(f"{name} was not reachable again within {wait_s:g} s")


class Unreachable(Exception):
    """A service did not respond, not even with an error."""


def fetch_health(url: str, *, patience_s: float = HEALTH_S) -> int:
    """Return the status of a health check. Raises Unreachable without a response in time."""
    httpx: Any = importlib.import_module("httpx")  # the SDK brings it
    try:
        return int(httpx.get(f"{url}/api/v1/healthz", timeout=patience_s).status_code)
    except httpx.TimeoutException:
        raise Unreachable(f"no answer within {patience_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None


@dataclass(frozen=True)
class ListedModel:
    """A model that a service lists."""

    context: int | None = None
    """Its context length in tokens; None if the service does not report it."""
    stand_in: str = ""
    """The model that answers instead of it, on a local server; empty for a real one."""
    tokenizer: str = ""
    """Directory of a stand-in's tokenizer on this machine."""


def fetch_models(url: str, key: str) -> dict[str, ListedModel]:
    """Return a service's models in its own order, by name; empty if it does not list them."""
    httpx: Any = importlib.import_module("httpx")
    try:
        answer = httpx.get(f"{url}/api/v1/get_server_capabilities", headers={"x-api-key": key}, timeout=HEALTH_S)
        models = answer.json()["supported_models"] if answer.status_code == httpx.codes.OK else []
        return {
            model["model_name"]: ListedModel(
                model.get("max_context_length"), str(model.get("stand_in", "")), str(model.get("tokenizer", ""))
            )
            for model in models
            if model.get("model_name")
        }
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _by_proxy(url: str) -> str:
    variable = proxy_variable(url)
    return f" (through the proxy of {variable})" if variable else ""


def close_service(service: Any, *, alive: bool) -> None:
    """End a session and its connections. Nothing is sent to a server that is gone."""
    # Before SDK 0.38 only the holder can be closed.
    if not hasattr(service, "close"):
        service.holder.close()
    elif alive:
        ending = service.close("success").future()
        with contextlib.suppress(Exception):
            ending.result(CLOSE_S)
        # A late end would only close connections: nothing is lost without it.
        ending.cancel()
    else:
        close_holder(service.holder, LEAVE_S)


def close_holder(holder: Any, patience_s: float = CLOSE_S) -> None:
    """Close the connections of a client, where this version of the SDK can."""
    if hasattr(holder, "aclose"):
        with contextlib.suppress(Exception):
            holder.run_coroutine_threadsafe(holder.aclose()).result(patience_s)
