"""One Tinker service: its address and key, and the SDK's clients, each made on first use, with deadlines around its calls."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import Future
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_crucible.backends.http.client import is_loopback
from pytest_crucible.backends.tinker.health import error_text, is_lost
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import BackendError, CrucibleError, Refused, ServiceLost, SpecError

HOSTED_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"
KEY, URL = "TINKER_API_KEY", "TINKER_BASE_URL"
OPTIONS = ("base_url", "api_key_env", "project")
"""Options that name an adapter's service; without them it is the session's own."""
KEY_STARTS = ("tml-", "eyJ")
"""Prefixes of an API key and of a JSON Web Token that stands for one."""


@dataclass(frozen=True)
class ServiceAddress:
    """The address of a service and the API key for it. The repr omits the key."""

    url: str
    key: str | None = field(repr=False)
    """None if the SDK finds a key itself: by `TINKER_CREDENTIAL_CMD`, or after `tinker auth login`."""
    project: str | None = None


def names_service(options: Mapping[str, object]) -> bool:
    """Return whether an adapter names a service other than the session's own."""
    return any(name in options for name in OPTIONS)


def read_address(
    adapter: str, options: Mapping[str, object], environment: Mapping[str, str], own_url: str | None
) -> ServiceAddress:
    """Return the address that an adapter names. Raises SpecError for an invalid one, and for a missing key."""
    for name in OPTIONS:
        if name in options and not (isinstance(options[name], str) and options[name]):
            raise SpecError(f'adapter {adapter!r} has {name} = {options[name]!r}: write {name} = "..."')
    url = options.get("base_url") or own_url
    if url is None:
        raise SpecError(
            f"adapter {adapter!r} names a key or a project, but the session's own service is on this machine: "
            "name the service with base_url"
        )
    if urlsplit(str(url)).scheme not in ("http", "https"):
        raise SpecError(f"adapter {adapter!r} has base_url {url!r}: write http://... or https://...")
    variable = str(options.get("api_key_env", KEY))
    project = options.get("project")
    return ServiceAddress(
        str(url).rstrip("/"), read_key(environment, variable, adapter), None if project is None else str(project)
    )


def read_key(environment: Mapping[str, str], variable: str, adapter: str) -> str:
    """Return the key in an environment variable. Raises SpecError for a missing key and for a text that cannot be a key."""
    key = environment.get(variable, "")
    if not key:
        raise SpecError(
            f"adapter {adapter!r} needs a key for its Tinker service: set {variable}, or name it in api_key_env"
        )
    if not key.startswith(KEY_STARTS):
        raise SpecError(f"{variable} is not a Tinker key: it must start with 'tml-'")
    return key


def exempt_loopback(url: str, environment: MutableMapping[str, str]) -> None:
    """Add a service on this machine to NO_PROXY: a proxy cannot reach this machine's own interface."""
    host = urlsplit(url).hostname or ""
    if is_loopback(host):
        for name in ("NO_PROXY", "no_proxy"):
            hosts = list(filter(None, environment.get(name, "").split(",")))
            environment[name] = ",".join(hosts if host in hosts else [*hosts, host])


def proxy_variable(url: str) -> str | None:
    """Return the variable that sets the proxy for a URL; None without a proxy."""
    parts = urlsplit(url)
    proxies = getproxies()
    scheme = next((candidate for candidate in (parts.scheme, "all") if candidate in proxies), None)
    if scheme is None or proxy_bypass(parts.netloc):
        return None
    upper = f"{scheme.upper()}_PROXY"
    return upper if upper in os.environ else f"{scheme}_proxy"


CHECKPOINT = "tinker://"


def identify_model(address: ServiceAddress, model: str, *, is_own: bool, is_local: bool) -> str:
    """Return the identity of a checkpoint or a base model.

    The local model's full name is a path; its last two parts name the weights in any folder. Models of a service other
    than the session's own have its URL before their name.
    """
    if is_local and not model.startswith(CHECKPOINT):
        model = "/".join(PurePosixPath(Path(model).as_posix()).parts[-2:])
    return model if is_own else f"{address.url} {model}"


def key_digest(key: str | None) -> str:
    """Return 8 characters that differ between keys and reveal none."""
    return hashlib.sha256((key or "").encode()).hexdigest()[:8]


def find_hosted_key(sdk: Any) -> tuple[str | None, set[str]]:
    """Return the hosted service's key (None: the SDK finds one) and all secrets that the SDK may send. Raises SpecError."""
    key, command = os.environ.get(KEY, ""), os.environ.get("TINKER_CREDENTIAL_CMD")
    # With a command the SDK finds the key itself: the variable need not hold one.
    if key and not key.startswith(KEY_STARTS) and not command:
        raise SpecError(f"{KEY} is not a Tinker key: it must start with 'tml-'")
    # Tokens of `tinker auth login`, which older versions of the SDK do not have.
    auth = getattr(sdk, "auth", None)
    stored = auth.get_tinker_token() if auth is not None and not key else None
    if not (key or command or stored):
        raise SpecError(f"the hosted Tinker service needs a key: set {KEY}, or leave crucible_tinker = local")
    return (key if key.startswith(KEY_STARTS) else None), {secret for secret in (key, stored) if secret}


T = TypeVar("T")

HEALTH_S = 5.0
"""A service that does not respond for this long is reported as dead: the SDK would retry for 303 s."""
CLOSE_S = 5.0
LEAVE_S = 1.0
"""Time to close a client whose service is gone: it would go on sending telemetry to it."""
_LOOK_S = 0.2


def run_within(seconds: float, call: Callable[[], T], check: Callable[[float], None] = lambda waited_s: None) -> T:
    """Return the result of a call. Raises TimeoutError when it is late: its thread is left, Python cannot stop it."""
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
        return {model["model_name"]: _read_model(model) for model in models if model.get("model_name")}
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _read_model(model: Mapping[str, Any]) -> ListedModel:
    stand_in, tokenizer = (str(model.get(name, "")) for name in ("stand_in", "tokenizer"))
    return ListedModel(model.get("max_context_length"), stand_in, tokenizer)


def fetch_steps(url: str, key: str, run: str) -> dict[str, int | None]:
    """Return the optimiser steps of a run's checkpoints by path; None where the service does not state them.

    Read without the SDK, whose lists leave the number out. Empty where the service does not list the run.
    """
    httpx: Any = importlib.import_module("httpx")
    try:
        place = f"{url}/api/v1/training_runs/{run}/checkpoints"
        answer = httpx.get(place, headers={"x-api-key": key}, timeout=HEALTH_S)
        listed = answer.json()["checkpoints"] if answer.status_code == httpx.codes.OK else []
        return {item["tinker_path"]: _read_steps(item.get("steps")) for item in listed}
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _read_steps(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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


LOCAL, HOSTED = "the local Tinker server", "Tinker"


class Service:
    """The SDK's clients of one service. Their errors are SpecErrors, raised before a deadline."""

    def __init__(
        self,
        address: ServiceAddress,
        sdk: Any,
        *,
        name: str,
        wait_s: float,
        seed: int,
        check: Callable[[float], None],
        hide: Callable[[str], str],
        watched: Callable[[Any], None] = lambda holder: None,
        recover: Callable[[float], ServiceAddress] | None = None,
    ) -> None:
        """`check` raises BackendError when the service is gone; `recover` waits until it is back and returns its address."""
        self.address, self.sdk, self.name = address, sdk, name
        self.check, self.hide = check, hide
        self._wait_s, self._seed, self._watched, self._recover = wait_s, seed, watched, recover
        self._is_closed = False

    @property
    def _connection(self) -> dict[str, str]:
        key = {} if self.address.key is None else {"api_key": self.address.key}
        return {"base_url": self.address.url, **key}

    @functools.cached_property
    def client(self) -> Any:
        """The SDK's ServiceClient, with its session open."""
        project = {} if self.address.project is None else {"project_id": self.address.project}
        client = self.sdk.ServiceClient(**self._connection, **project)
        self._watched(self.within("open a session", lambda: client.holder))
        return client

    @functools.cached_property
    def rest(self) -> Any:
        if not hasattr(self.sdk, "RestClient"):  # before SDK 0.38
            return self.within("open a client", self.client.create_rest_client)
        return self.within("open a client", lambda: self.sdk.RestClient(**self._connection))

    @functools.cached_property
    def models(self) -> Mapping[str, ListedModel]:
        """The models that the service lists, by name; empty if it does not list them."""
        return fetch_models(self.address.url, self.address.key) if self.address.key else {}

    def steps_of(self, paths: Iterable[str]) -> dict[str, int | None]:
        """Return the optimiser steps that checkpoints hold, by path; without those that the service does not list."""
        runs = dict.fromkeys(path.removeprefix(CHECKPOINT).partition("/")[0] for path in paths)
        key = self.address.key
        # Without a key of its own the SDK signs in, by a program or a token: then the numbers are unknown.
        of_runs = [fetch_steps(self.address.url, key, run) for run in runs] if key else []
        return {path: steps for of_run in of_runs for path, steps in of_run.items()}

    def find_listed(self, model: str) -> ListedModel:
        """Return the service's entry of a model; variants of a model have its name, a colon and a suffix."""
        return self.models.get(model) or self.models.get(model.partition(":")[0]) or ListedModel()

    def training_client(self, **options: Any) -> Any:
        """Return the SDK's TrainingClient of a new adapter; options are those of `create_lora_training_client`."""
        create = self.client.create_lora_training_client
        return self.within("make an adapter to train", lambda: create(**{"seed": self._seed, **options}))

    def resumed_client(self, state: str, *, optimizer: bool = False) -> Any:
        """Return the SDK's TrainingClient of a new adapter with the weights of a saved state, and its optimiser's."""
        name = "create_training_client_from_state"
        create = getattr(self.client, f"{name}_with_optimizer" if optimizer else name)
        return self.within(f"go on from {state}", lambda: create(state))

    def sampling_client(self, *, model_path: str | None = None, base_model: str | None = None) -> Any:
        """Return the SDK's SamplingClient of a checkpoint or a base model."""
        create = self.client.create_sampling_client
        named = {"model_path": model_path} if model_path else {"base_model": base_model}
        return self.within("open a model to sample from", lambda: create(**named))

    def within(self, doing: str, call: Callable[[], Any]) -> Any:
        """Return the result of a call of the SDK. Raises SpecError when it fails, is late, or the service is gone."""
        try:
            # The SDK would try for minutes to reach a service that is known to be gone.
            self.check(0.0)
            return run_within(self._wait_s, lambda: resolve_future(call()), self.check)
        except Refused as error:
            raise SpecError(str(error)) from None
        except BackendError as error:
            raise ServiceLost(str(error)) from None
        except CrucibleError:
            raise
        except TimeoutError:
            raise ServiceLost(f"{self.name} did not {doing} within {self._wait_s:g} s") from None
        except Exception as error:
            kind = ServiceLost if is_lost(error) else SpecError
            raise kind(self.hide(f"{self.name} did not {doing}: {error_text(error)}")) from None

    def recover(self, wait_s: float) -> None:
        """Open the service again after it was lost, with a session of its own. Raises SpecError if it does not come back."""
        self.close(alive=False)
        self.__dict__.pop("models", None)
        if self._recover is not None:
            self.address = self._recover(wait_s)

    def close(self, *, alive: bool) -> None:
        """End the session and close its connections; nothing is sent to a service that is gone. Idempotent."""
        opened = self.__dict__
        rest, client = opened.pop("rest", None), opened.pop("client", None)
        # Connections to other services are shared by the whole process, so that only the local server's are closed.
        if rest is not None and self.name == LOCAL:
            close_holder(rest.holder)
        if client is not None:
            close_service(client, alive=alive)
