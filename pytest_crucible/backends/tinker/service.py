"""One Tinker service: the SDK's clients, each made on first use, with deadlines around its calls; and downloads.

The SDK has URLs for external weights only, so that a training checkpoint is loaded into a new training run and saved as external
weights for an hour, which are deleted afterwards (as `tinker checkpoint download` does). It has no call that uploads files.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pytest_crucible.backends.tinker.address import ServiceAddress, proxy_variable
from pytest_crucible.backends.tinker.health import error_text, is_lost
from pytest_crucible.records.errors import BackendError, CrucibleError, Refused, ServiceLost, SpecError

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


LOCAL, HOSTED = "the local Tinker server", "Tinker"


class Service:
    """The SDK's clients of one service. Their errors are SpecErrors, raised before a deadline.

    `check` raises BackendError when the service is gone, `hide` removes keys from a sentence.
    """

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
        """`watched` is called with the holder of every connection that is opened.

        `recover` waits at most some seconds until the service answers again, and returns where it is then.
        """
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
        """The SDK's RestClient."""
        if not hasattr(self.sdk, "RestClient"):  # before SDK 0.38
            return self.within("open a client", self.client.create_rest_client)
        return self.within("open a client", lambda: self.sdk.RestClient(**self._connection))

    @functools.cached_property
    def models(self) -> Mapping[str, ListedModel]:
        """The models that the service lists, by name; empty if it does not list them."""
        return fetch_models(self.address.url, self.address.key) if self.address.key else {}

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


TRAINING, SAMPLER, EXTERNAL = "weights", "sampler_weights", "external_weights"
# The least that the service allows.
_EXPORT_S = 3600
# Without any byte for this long a download has stalled.
_TIMEOUT_S = 60.0


def download_checkpoint(service: Service, path: str, target: Path) -> dict[str, int]:
    """Write a checkpoint to a directory, or to a file that ends in .tar; return the size of each file in bytes.

    The target appears whole or not at all. Raises SpecError for a target that exists, for sampler weights, which no service hands
    out, and for what the service refuses.
    """
    if target.exists():
        raise SpecError(f"{target} exists already: choose another name with -o, or delete it")
    kind = path_parts(path)[1]
    if kind == SAMPLER:
        raise SpecError(
            f"{path} cannot be downloaded: services hand out tinker://RUN/{TRAINING}/NAME, which save_state writes"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        with _external_weights(service, path) if kind == TRAINING else contextlib.nullcontext(path) as external:
            urls = service.within("give URLs of a checkpoint", lambda: service.rest.get_external_weights_urls(external))
            sizes = {name: _fetch(service, url, _place(draft, name)) for name, url in sorted(urls.urls.items())}
        _publish(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return sizes


def path_parts(path: str) -> tuple[str, str, str]:
    """Return run, kind and name of `tinker://RUN/KIND/NAME`. Raises SpecError for anything else.

    >>> path_parts("tinker://S:train:0/weights/step20")
    ('S:train:0', 'weights', 'step20')
    """
    run, kind, name = (*path.removeprefix("tinker://").split("/"), "", "")[:3]
    is_whole = path.startswith("tinker://") and path.count("/") == 4 and run and name
    if not is_whole or kind not in (TRAINING, SAMPLER, EXTERNAL):
        raise SpecError(
            f"{path!r} is not a checkpoint: write tinker://RUN/{TRAINING}/NAME, as `crucible tinker checkpoints` lists it"
        )
    return run, kind, name


@contextlib.contextmanager
def _external_weights(service: Service, path: str) -> Iterator[str]:
    """Yield the path of external weights with a training checkpoint's adapter, which are deleted in the end."""
    client = service.resumed_client(path)
    if not hasattr(client, "save_weights_external"):
        raise SpecError('this version of Tinker\'s SDK cannot download checkpoints: pip install "tinker>=0.38"')
    saved = service.within(
        "save external weights", lambda: client.save_weights_external("download", ttl_seconds=_EXPORT_S)
    )
    try:
        yield saved.path
    finally:
        service.within("delete external weights", lambda: service.rest.delete_checkpoint_from_tinker_path(saved.path))


def _place(folder: Path, name: str) -> Path:
    """Return the place of a file below a folder. Raises SpecError for a name that leads elsewhere."""
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()) or place == folder.resolve():
        raise SpecError(f"the checkpoint has a file {name!r}, which leads out of its directory: nothing was written")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _fetch(service: Service, url: str, place: Path) -> int:
    """Write the file at a URL; return its size."""
    httpx: Any = importlib.import_module("httpx")  # the SDK brings it
    try:
        with httpx.stream("GET", url, timeout=_TIMEOUT_S) as response, place.open("wb") as file:
            response.raise_for_status()
            return sum(file.write(part) for part in response.iter_bytes())
    except httpx.HTTPStatusError as error:
        # The URL itself is a permission, and does not belong in a message.
        raise SpecError(
            f"{service.name} responded to a download with status {error.response.status_code}: try again"
        ) from None
    except httpx.HTTPError as error:
        raise SpecError(f"{service.name} broke off a download ({type(error).__name__}): try again") from None


def _publish(draft: Path, target: Path) -> None:
    if target.suffix != ".tar":
        # mkdtemp creates directories that only their owner can read.
        draft.chmod(0o755)
        draft.rename(target)
        return
    archive = draft.parent / f"{draft.name}.tar"
    try:
        with tarfile.open(archive, "w") as tar:
            for file in sorted(file for file in draft.rglob("*") if file.is_file()):
                tar.add(file, arcname=file.relative_to(draft).as_posix())
        archive.rename(target)
    finally:
        archive.unlink(missing_ok=True)


def size_lines(sizes: Mapping[str, int]) -> list[str]:
    return [f"  {name}  {size:,} bytes" for name, size in sizes.items()]
