"""Tinker for one pytest session: opened when first asked for, closed with the session.

Local is the default, and then the session's own service cannot be the hosted one: address and key are passed on, and stand in
the environment for code that builds clients of its own. The hosted one is used when the options say so and there is a key.
Adapters may name further services, each of which is opened once.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.errors import BackendError, CrucibleError, SpecError
from pytest_crucible.hiding import hide_keys
from pytest_crucible.options import read
from pytest_crucible.tinkering.keys import hosted_key
from pytest_crucible.tinkering.places import HOSTED_URL, KEY, OPTIONS, URL, Place, exempt_from_proxies, place_of
from pytest_crucible.tinkering.service import HOSTED, LOCAL, Service

if TYPE_CHECKING:
    from pytest_crucible.embedded.server.process import LocalServer
    from pytest_crucible.tinkering.pulse import Pulse

OPEN_S = 300.0
"""The longest wait for a client, where the options set none."""


def tinkering(config: pytest.Config) -> Tinkering:
    """Tinker for this session; what it has is opened when it is asked for."""
    if _TINKERING not in config.stash:
        one = Tinkering(config)
        config.stash[_TINKERING] = one
        config.add_cleanup(one.close)
    return config.stash[_TINKERING]


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Inside a fixture: what is wrong is told in one sentence, without a traceback."""
    try:
        yield
    except CrucibleError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


class Tinkering:
    """The session's own service, further ones of its adapters, and the server on this machine. What goes wrong is a SpecError."""

    def __init__(self, config: pytest.Config) -> None:
        settings = read(config)
        self.is_local: bool = getattr(settings, "tinker", "local") != "hosted"
        self.seed = settings.seed
        self._base: str | None = getattr(settings, "tinker_base", None) or os.environ.get("CRUCIBLE_TINKER_BASE")
        self._wait_s = settings.timeout or OPEN_S
        self._root = config.rootpath
        self._outside = dict(os.environ)
        """The environment as the user has it."""
        self._changed: set[str] = set()
        self.hide = hide_keys(config)
        self.hide.learn(*({self._outside.get(KEY, "")} - {""}))
        self._services: dict[Place, Service] = {}
        self._pulses: dict[str, Pulse] = {}

    # -- services ---------------------------------------------------------------------------------------------------

    @functools.cached_property
    def server(self) -> LocalServer:
        """The server on this machine, which is there for whoever asks also when the clients are hosted."""
        from pytest_crucible.embedded.server.process import LocalServer, ServerFailed

        base = self._root / self._base if self._base and self.is_local else None
        try:
            server = LocalServer.start(self._root / ".crucible" / "tinker", base=base)
        except (ServerFailed, OSError) as error:
            raise SpecError(f"the local Tinker server cannot be started: {_in_one_line(error)}") from None
        self.hide.learn(server.key)
        if self.is_local:
            self._set(server.environment())
        return server

    @functools.cached_property
    def own(self) -> Service:
        """The session's own service."""
        if self.is_local:
            _ = self.sdk  # before anything is started that would need it
            return self._service(Place(self.server.url, self.server.key), name=LOCAL, check=self.check)
        key, secrets = hosted_key(self.sdk)
        self.hide.learn(*secrets)
        return self._remote(Place(self._hosted_url, key), name=HOSTED)

    def of(self, adapter: str, options: Mapping[str, object]) -> Service:
        """The service that an adapter names, opened once; the session's own where it names none."""
        if not any(name in options for name in OPTIONS):
            return self.own
        place = place_of(adapter, options, self._outside, None if self.is_local else self._hosted_url)
        if place.key:
            self.hide.learn(place.key)
        if place not in self._services:
            _ = self.sdk
            self._services[place] = self._remote(place, name=f"Tinker at {place.url}")
        return self._services[place]

    @functools.cached_property
    def sdk(self) -> Any:
        """The module `tinker`."""
        try:
            return importlib.import_module("tinker")
        except ImportError as error:
            raise SpecError(
                f'Tinker\'s clients need its SDK: pip install "pytest-crucible[tinker]" ({error})'
            ) from None

    @property
    def _hosted_url(self) -> str:
        return (self._outside.get(URL) or HOSTED_URL).rstrip("/")

    def _remote(self, place: Place, *, name: str) -> Service:
        """A service that is not ours. It is asked for a sign of life before the SDK would begin to try."""
        from pytest_crucible.tinkering.pulse import GONE_S, Pulse
        from pytest_crucible.tinkering.waiting import check_answers, health

        nearer = dict(os.environ)
        exempt_from_proxies(place.url, nearer)
        self._set({one: nearer[one] for one in nearer if nearer[one] != os.environ.get(one)})
        if place.url not in self._pulses:
            check_answers(place.url)
            self._pulses[place.url] = Pulse(name, lambda: health(place.url, patience_s=GONE_S))
        pulse = self._pulses[place.url]
        return self._service(place, name=name, check=pulse.check, watched=pulse.listen)

    def _service(self, place: Place, *, name: str, check: Callable[[float], None], **named: Any) -> Service:
        return Service(
            place, self.sdk, name=name, wait_s=self._wait_s, seed=self.seed, check=check, hide=self.hide, **named
        )

    def check(self, waited_s: float = 0.0) -> None:
        """Raise BackendError when the local server is gone."""
        if self.is_local and "server" in self.__dict__:
            from pytest_crucible.embedded.server.process import ServerFailed

            try:
                self.server.check()
            except ServerFailed as error:
                raise BackendError(self.hide(_in_one_line(error))) from None

    # -- clients of the session's own service -------------------------------------------------------------------------

    @functools.cached_property
    def base_model(self) -> str:
        """The model that is meant where none is named."""
        if self.is_local:
            for name in self.own.contexts:
                return name
            raise SpecError("the local Tinker server does not tell its models")
        if self._base is None:
            raise SpecError(
                "the hosted Tinker service has many models: say which with crucible_tinker_base, or with base_model"
            )
        return self._base

    def training_client(self, **options: Any) -> Any:
        """The SDK's TrainingClient of a new adapter; options are those of `create_lora_training_client`."""
        return self.own.training_client(**{**options, "base_model": self.model(options.get("base_model"))})

    def sampling_client(self, *, model_path: str | None = None, base_model: str | None = None) -> Any:
        """The SDK's SamplingClient of a checkpoint or a base model."""
        if model_path:
            return self.own.sampling_client(model_path=model_path)
        return self.own.sampling_client(base_model=self.model(base_model))

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The base model's, as the SDK loads it."""
        return self.own.within("load the tokenizer", self.sampling_client().get_tokenizer)

    def model(self, named: str | None) -> str:
        """The full name of a base model: under the local one's short name transformers would find no tokenizer."""
        if named is None or (self.is_local and named in self.own.contexts):
            return self.base_model
        return named

    # -- closing ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the sessions, close connections, stop the server and put the environment back. Idempotent."""
        own, server = (self.__dict__.pop(name, None) for name in ("own", "server"))
        services = [*([own] if own is not None else []), *self._services.values()]
        self._services.clear()
        try:
            for service in services:
                service.close(alive=_is_alive(service) and (server is None or server.process.poll() is None))
        finally:
            while self._pulses:
                self._pulses.popitem()[1].close()
            if server is not None:
                server.stop()
            self._restore_environment()

    def _set(self, variables: Mapping[str, str]) -> None:
        self._changed |= set(variables)
        os.environ.update(variables)

    def _restore_environment(self) -> None:
        for name in self._changed:
            if name in self._outside:
                os.environ[name] = self._outside[name]
            else:
                os.environ.pop(name, None)
        self._changed.clear()


def _is_alive(service: Service) -> bool:
    try:
        service.check(0.0)
    except BackendError:
        return False
    return True


def _in_one_line(error: Exception) -> str:
    """A server's log may follow its end: the last line of it says why."""
    first, *rest = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{first} ... {rest[-1]}" if rest else first


_TINKERING = pytest.StashKey[Tinkering]()
