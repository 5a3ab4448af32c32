"""The Tinker services of one session: opened when first used, closed with the session.

The default is the local service. Its address and key are passed to the SDK explicitly, and set in the environment for code that
creates its own clients, so that no client reaches the hosted service by mistake. The hosted service is used only when the
options select it and there is a key. Adapters may name further services, each of which is opened once.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.backends.tinker.health import GONE_S, HealthMonitor
from pytest_crucible.backends.tinker.service import (
    HOSTED,
    HOSTED_URL,
    KEY,
    LOCAL,
    URL,
    Service,
    ServiceAddress,
    check_answers,
    exempt_loopback,
    fetch_health,
    find_hosted_key,
    names_service,
    read_address,
    resolve_future,
    wait_for_service,
)
from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.tokens import TEMPLATE, Tokenizer, render_prompt
from pytest_crucible.records.errors import BackendError, SpecError
from pytest_crucible.records.files import STORE_FOLDER, create_store_folder


class SessionEnvironment:
    """Remembers the value that each variable had before the session set it."""

    def __init__(self) -> None:
        self.original = dict(os.environ)
        self._before: dict[str, str | None] = {}

    def set(self, variables: Mapping[str, str]) -> None:
        """Set variables until `restore`."""
        for name, value in variables.items():
            self._before.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def restore(self) -> None:
        """Put every variable back as it was before it was first set. Idempotent."""
        while self._before:
            name, value = self._before.popitem()
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class LocalTokenizer:
    """A tokenizer with the interface of transformers, whose import alone would take seconds."""

    chat_template = TEMPLATE

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = tokenizer.eos

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return token ids. The model has no special tokens to add."""
        return self._tokenizer.encode(text)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return text. The tokenizer writes nothing for special tokens, whether they are skipped or not."""
        return self._tokenizer.decode(token_ids)

    def apply_chat_template(self, messages: Any, *, tokenize: bool, add_generation_prompt: bool) -> str:
        return render_prompt(messages)


def load_local_tokenizer(model: str) -> LocalTokenizer:
    """Return the tokenizer of a local model, whose name is the path of its directory."""
    return LocalTokenizer(Tokenizer.load(Path(model) / "tokenizer.json"))


def ask_servers_for_tokenizers(sdk: Any) -> Callable[[], None]:
    """Let sampling clients named `crucible/tiny` load the tokenizer that their server has. Return a function that undoes it."""
    original = sdk.SamplingClient.get_tokenizer

    @functools.wraps(original)
    def get_tokenizer(client: Any) -> Any:
        directory = _directory_at_server(client)
        if directory is None:
            return original(client)
        from transformers import AutoTokenizer  # takes seconds

        return AutoTokenizer.from_pretrained(directory)

    sdk.SamplingClient.get_tokenizer = get_tokenizer
    return lambda: setattr(sdk.SamplingClient, "get_tokenizer", original)


def _directory_at_server(client: Any) -> str | None:
    """Return the long name that the server has for the model, a directory; None for any other model."""
    if resolve_future(client.get_base_model()) != BASE_MODEL:
        return None
    # Private: the SDK's own request for a sampler's model. In a version without it the client is left as it is.
    submit = getattr(client, "_get_sampler_submit", None)
    return None if submit is None else str(submit().result().base_model)


if TYPE_CHECKING:
    from pytest_crucible.local_model.server.process import LocalServer


class Redaction(Protocol):
    def __call__(self, text: str) -> str: ...

    def learn(self, *keys: str) -> None:
        """Remove these keys, too, from now on."""


class TinkerServices:
    """The session's own service, further ones that adapters name, and the server on this machine. Errors are SpecErrors."""

    def __init__(
        self, root: Path, *, is_local: bool, base: str | None, seed: int, wait_s: float, hide: Redaction
    ) -> None:
        """`base` is a directory below `root` where the service is local, else the name of a model; `wait_s` for a client."""
        self.is_local, self.seed, self.hide = is_local, seed, hide
        self._root, self._base, self._wait_s = root, base, wait_s
        self._environment = SessionEnvironment()
        self.hide.learn(*({self._environment.original.get(KEY, "")} - {""}))
        self._services: dict[ServiceAddress, Service] = {}
        self._monitors: dict[str, HealthMonitor] = {}
        self._restore_sdk: Callable[[], None] = lambda: None

    # -- services ---------------------------------------------------------------------------------------------------

    @property
    def local_base(self) -> Path | None:
        """The directory of the local service's base model; None for the packaged one."""
        # With a hosted service `base` names one of its models, and the local server has the packaged one.
        return self._root / self._base if self._base and self.is_local else None

    @functools.cached_property
    def server(self) -> LocalServer:
        """The server on this machine, which the fixture `local_tinker` starts even when the clients are hosted."""
        from pytest_crucible.local_model.server.process import LocalServer, ServerFailed

        try:
            create_store_folder(self._root / STORE_FOLDER)
            server = LocalServer.start(self._root / STORE_FOLDER / "tinker", base=self.local_base)
        except (ServerFailed, OSError) as error:
            raise SpecError(f"the local Tinker server cannot be started: {_in_one_line(error)}") from None
        self.hide.learn(server.key)
        if self.is_local:
            self._environment.set(server.environment())
        return server

    @functools.cached_property
    def own(self) -> Service:
        if self.is_local:
            # A missing SDK is reported before a server is started in vain.
            _ = self.sdk
            address = ServiceAddress(self.server.url, self.server.key)
            return self._service(address, name=LOCAL, check=self.check, recover=self._restart_server)
        key, secrets = find_hosted_key(self.sdk)
        self.hide.learn(*secrets)
        return self._remote(ServiceAddress(self._hosted_url, key), name=HOSTED)

    def service_of(self, adapter: str, options: Mapping[str, object]) -> Service:
        """Return the service that an adapter names, opened once; the session's own where it names none."""
        if not names_service(options):
            return self.own
        address = read_address(
            adapter, options, self._environment.original, None if self.is_local else self._hosted_url
        )
        if address.key:
            self.hide.learn(address.key)
        if address not in self._services:
            _ = self.sdk
            self._services[address] = self._remote(address, name=f"Tinker at {address.url}")
        return self._services[address]

    @functools.cached_property
    def sdk(self) -> Any:
        try:
            sdk = importlib.import_module("tinker")
        except ImportError as error:
            raise SpecError(
                f'Tinker\'s clients need its SDK: pip install "pytest-crucible[tinker]" ({error})'
            ) from None

        self._restore_sdk = ask_servers_for_tokenizers(sdk)
        return sdk

    @property
    def _hosted_url(self) -> str:
        return (self._environment.original.get(URL) or HOSTED_URL).rstrip("/")

    def _remote(self, address: ServiceAddress, *, name: str) -> Service:
        """Return a remote service. Its health is checked first, because the SDK would retry for minutes."""
        # The SDK reads proxies from the environment: NO_PROXY is the only way to exempt a service on this machine.
        nearer = dict(os.environ)
        exempt_loopback(address.url, nearer)
        self._environment.set({name: nearer[name] for name in nearer if nearer[name] != os.environ.get(name)})
        # One monitor a URL: services that differ in key or project are up and down together.
        if address.url not in self._monitors:
            check_answers(address.url)
            self._monitors[address.url] = HealthMonitor(name, lambda: fetch_health(address.url, patience_s=GONE_S))
        monitor = self._monitors[address.url]

        def recover(wait_s: float) -> ServiceAddress:
            wait_for_service(name, address.url, wait_s)
            monitor.heard(None)
            return address

        return self._service(address, name=name, check=monitor.check, watched=monitor.listen, recover=recover)

    def _restart_server(self, wait_s: float) -> ServiceAddress:
        """Start the server on this machine again if it has ended; its checkpoints are still there."""
        if self.server.process.poll() is not None:
            self.__dict__.pop("server").stop()
        return ServiceAddress(self.server.url, self.server.key)

    def _service(self, address: ServiceAddress, *, name: str, check: Callable[[float], None], **named: Any) -> Service:
        return Service(
            address, self.sdk, name=name, wait_s=self._wait_s, seed=self.seed, check=check, hide=self.hide, **named
        )

    def check(self, waited_s: float = 0.0) -> None:
        """Raise BackendError when the local server is gone."""
        if self.is_local and "server" in self.__dict__:
            from pytest_crucible.local_model.server.process import ServerFailed

            try:
                self.server.check()
            except ServerFailed as error:
                raise BackendError(self.hide(_in_one_line(error))) from None

    # -- clients of the session's own service -------------------------------------------------------------------------

    @functools.cached_property
    def base_model(self) -> str:
        """The model of clients that name none."""
        if self.is_local:
            return BASE_MODEL
        if self._base is None:
            raise SpecError(
                "the hosted Tinker service has many models: name one with crucible_tinker_base, or with base_model"
            )
        return self._base

    def training_client(self, **options: Any) -> Any:
        """Return the SDK's TrainingClient of a new adapter; options are those of `create_lora_training_client`."""
        return self.own.training_client(**{"base_model": self.base_model, **options})

    def sampling_client(self, *, model_path: str | None = None, base_model: str | None = None) -> Any:
        """Return the SDK's SamplingClient of a checkpoint or a base model."""
        if model_path:
            return self.own.sampling_client(model_path=model_path)
        return self.own.sampling_client(base_model=base_model or self.base_model)

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The base model's tokenizer, as the SDK loads it."""
        return self.own.within("load the tokenizer", self.sampling_client().get_tokenizer)

    def full_name(self, named: str | None) -> str:
        """Return the full name of a base model: that of the local one has a digest of its weights."""
        named = named or self.base_model
        if not self.is_local or named not in self.own.models:
            return named
        # The server lists it first.
        return next(iter(self.own.models))

    # -- closing ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the sessions, stop the server and restore the environment: each step, though another one fails. Idempotent."""
        own, server, _ = (self.__dict__.pop(name, None) for name in ("own", "server", "sdk"))
        services = [*([own] if own is not None else []), *self._services.values()]
        self._services.clear()
        with ExitStack() as steps:  # in reverse order
            steps.callback(self._environment.restore)
            steps.callback(self._restore_sdk)
            if server is not None:
                steps.callback(server.stop)
            while self._monitors:
                steps.callback(self._monitors.popitem()[1].close)
            for service in reversed(services):
                steps.callback(_close_service, service, server)


def _close_service(service: Service, server: LocalServer | None) -> None:
    is_alive = server is None or server.process.poll() is None
    try:
        service.check(0.0)
    except BackendError:
        is_alive = False
    service.close(alive=is_alive)


def _in_one_line(error: Exception) -> str:
    """Return first and last line of an error: a server's log may follow, whose last line has the reason."""
    first, *rest = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{first} ... {rest[-1]}" if rest else first
