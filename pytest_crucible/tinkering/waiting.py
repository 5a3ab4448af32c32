"""Deadlines around the SDK, which by itself waits for minutes: for a service that is not there, a client, an end."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pytest_crucible.errors import SpecError
from pytest_crucible.tinkering.places import proxy_for

T = TypeVar("T")

HEALTH_S = 5.0
"""After this long without a word a service is called dead: the SDK would try for 303 s."""
CLOSE_S = 5.0
LEAVE_S = 1.0
"""How long to wait for the end of a client whose service is gone: it would go on telling it how things went."""
_LOOK_S = 0.2


def within(seconds: float, call: Callable[[], T], check: Callable[[float], None] = lambda waited_s: None) -> T:
    """What a call gives, or what it or `check` raises; TimeoutError when it is late. Then its thread is left behind."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="tinkering", daemon=True).start()
    started = time.monotonic()
    while not future.done():
        waited_s = time.monotonic() - started
        if waited_s > seconds:
            raise TimeoutError
        check(waited_s)
        with contextlib.suppress(TimeoutError):
            future.exception(timeout=min(_LOOK_S, max(seconds - waited_s, 0.0)))
    return future.result()


def got(made: Any) -> Any:
    """The client itself: since SDK 0.38 clients are made as futures."""
    return made.result() if hasattr(made, "result") else made


def check_answers(url: str) -> None:
    """Raise SpecError unless something answers there, and not only that it cannot. Through the proxy that the SDK would use."""
    end = time.monotonic() + HEALTH_S
    try:
        while (status := within(max(end - time.monotonic(), _LOOK_S), lambda: health(url))) >= 500 or status == 429:
            if time.monotonic() > end - 2 * _LOOK_S:
                raise SpecError(f"Tinker at {url} answers nothing but status {status}")
            time.sleep(_LOOK_S)
    except TimeoutError:
        raise SpecError(f"Tinker at {url} does not answer within {HEALTH_S:g} s{_by_proxy(url)}") from None
    except Unreachable as error:
        raise SpecError(f"Tinker at {url} does not answer: {error}{_by_proxy(url)}") from None


class Unreachable(Exception):
    """No answer, not even a bad one."""


def health(url: str, *, patience_s: float = HEALTH_S) -> int:
    """The status of a question after a service's health; Unreachable when there is no answer in time."""
    httpx: Any = importlib.import_module("httpx")  # the SDK brings it
    try:
        return int(httpx.get(f"{url}/api/v1/healthz", timeout=patience_s).status_code)
    except httpx.TimeoutException:
        raise Unreachable(f"no answer within {patience_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None


def models(url: str, key: str) -> dict[str, int | None]:
    """A service's models in its own order, and how many tokens each reads; empty where it does not tell."""
    httpx: Any = importlib.import_module("httpx")
    try:
        answer = httpx.get(f"{url}/api/v1/get_server_capabilities", headers={"x-api-key": key}, timeout=HEALTH_S)
        told = answer.json()["supported_models"] if answer.status_code == httpx.codes.OK else []
        return {one["model_name"]: one.get("max_context_length") for one in told if one.get("model_name")}
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _by_proxy(url: str) -> str:
    variable = proxy_for(url)
    return f" (through the proxy of {variable})" if variable else ""


def close_service(service: Any, *, alive: bool) -> None:
    """End a session and its connections. One whose server is gone is told no more."""
    if not hasattr(service, "close"):  # before SDK 0.38
        service.holder.close()
    elif alive:
        ending = service.close("success").future()
        with contextlib.suppress(Exception):
            ending.result(CLOSE_S)
        ending.cancel()  # what is late only closes its connections
    else:
        close_holder(service.holder, LEAVE_S)


def close_holder(holder: Any, patience_s: float = CLOSE_S) -> None:
    """Close the connections of a client, where this version of the SDK can."""
    if hasattr(holder, "aclose"):
        with contextlib.suppress(Exception):
            holder.run_coroutine_threadsafe(holder.aclose()).result(patience_s)
