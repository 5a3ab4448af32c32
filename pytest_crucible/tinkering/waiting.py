"""Deadlines around the SDK, which by itself waits for minutes: for a service that is not there, a client, an end."""

from __future__ import annotations

import contextlib
import importlib
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pytest_crucible.errors import SpecError

T = TypeVar("T")

HEALTH_S = 5.0
"""After this long without a word a service is called dead: the SDK would try for 303 s."""
CLOSE_S = 5.0
_LOOK_S = 0.2


def within(seconds: float, call: Callable[[], T], check: Callable[[], None] = lambda: None) -> T:
    """What a call gives, or what it or `check` raises; TimeoutError when it is late. Then its thread is left behind."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="tinkering", daemon=True).start()
    end = time.monotonic() + seconds
    while not future.done():
        if time.monotonic() > end:
            raise TimeoutError
        check()
        with contextlib.suppress(TimeoutError):
            future.exception(timeout=min(_LOOK_S, max(end - time.monotonic(), 0.0)))
    return future.result()


def got(made: Any) -> Any:
    """The client itself: since SDK 0.38 clients are made as futures."""
    return made.result() if hasattr(made, "result") else made


def check_answers(url: str) -> None:
    """Raise SpecError unless something answers there, whatever it says. Through the proxy that the SDK would use."""
    httpx: Any = importlib.import_module("httpx")  # the SDK brings it
    try:
        within(HEALTH_S, lambda: httpx.get(f"{url}/api/v1/healthz", timeout=HEALTH_S))
    except TimeoutError:
        raise SpecError(f"Tinker at {url} does not answer within {HEALTH_S:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SpecError(f"Tinker at {url} does not answer: {str(error) or type(error).__name__}") from None


def models(url: str, key: str) -> list[str]:
    """The names of a local service's models, the long one first. No proxy may stand between."""
    request = urllib.request.Request(f"{url}/api/v1/get_server_capabilities", headers={"x-api-key": key})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=HEALTH_S) as response:
            return [one["model_name"] for one in json.load(response)["supported_models"]]
    except OSError as error:
        raise SpecError(f"the local Tinker server does not answer: {error}") from None


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
        close_holder(service.holder)


def close_holder(holder: Any) -> None:
    """Close the connections of a client, where this version of the SDK can."""
    if hasattr(holder, "aclose"):
        with contextlib.suppress(Exception):
            holder.run_coroutine_threadsafe(holder.aclose()).result(CLOSE_S)
