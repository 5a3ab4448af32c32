"""Tinker for one pytest session: opened when first asked for, closed with the session.

Local is the default, and then nothing here can reach the hosted service: address and key are passed on, and stand in the
environment for code that builds clients of its own. The hosted one is used when the options say so and there is a key.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.errors import CrucibleError, SpecError
from pytest_crucible.options import read
from pytest_crucible.tinkering.keys import HiddenKeys, hidden, hosted_secrets

if TYPE_CHECKING:
    from pytest_crucible.embedded.server.process import LocalServer

HOSTED_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"
OPEN_S = 300.0
"""The longest wait for a client, where the options set none."""


def tinkering(config: pytest.Config) -> Tinkering:
    """Tinker for this session; what it has is opened when it is asked for."""
    if _TINKERING not in config.stash:
        one = Tinkering(config)
        config.stash[_TINKERING] = one
        config.pluginmanager.register(HiddenKeys(config, one.hide), "crucible-hidden-keys")
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
    """The service and its clients, each made when first asked for. What goes wrong is a SpecError."""

    def __init__(self, config: pytest.Config) -> None:
        settings = read(config)
        self.is_local: bool = getattr(settings, "tinker", "local") != "hosted"
        self.seed = settings.seed
        self._base: str | None = getattr(settings, "tinker_base", None) or os.environ.get("CRUCIBLE_TINKER_BASE")
        self._wait_s = settings.timeout or OPEN_S
        self._root = config.rootpath
        self._before: dict[str, str | None] = {}
        self._secrets = {os.environ.get("TINKER_API_KEY", "")} - {""}

    # -- the service ------------------------------------------------------------------------------------------------

    @functools.cached_property
    def server(self) -> LocalServer:
        """The server on this machine, which is there for whoever asks also when the clients are hosted."""
        from pytest_crucible.embedded.server.process import LocalServer, ServerFailed

        base = self._root / self._base if self._base and self.is_local else None
        try:
            server = LocalServer.start(self._root / ".crucible" / "tinker", base=base)
        except (ServerFailed, OSError) as error:
            raise SpecError(f"the local Tinker server cannot be started: {_in_one_line(error)}") from None
        self._secrets.add(server.key)
        if self.is_local:
            for name, value in server.environment().items():
                self._before[name] = os.environ.get(name)
                os.environ[name] = value
        return server

    @functools.cached_property
    def service(self) -> Any:
        """The SDK's ServiceClient, with its session open."""
        client = self.sdk.ServiceClient(**self._address)
        self.within("open a session", lambda: client.holder)
        return client

    @functools.cached_property
    def rest(self) -> Any:
        """The SDK's RestClient."""
        if not hasattr(self.sdk, "RestClient"):  # before SDK 0.38
            return self.within("open a client", self.service.create_rest_client)
        return self.within("open a client", lambda: self.sdk.RestClient(**self._address))

    @functools.cached_property
    def sdk(self) -> Any:
        """The module `tinker`."""
        try:
            return importlib.import_module("tinker")
        except ImportError as error:
            raise SpecError(
                f'Tinker\'s clients need its SDK: pip install "pytest-crucible[tinker]" ({error})'
            ) from None

    @functools.cached_property
    def _address(self) -> dict[str, str]:
        """Where the service is. The hosted one is asked for a sign of life before the SDK would begin to try."""
        if self.is_local:
            return {"base_url": self.server.url, "api_key": self.server.key}
        from pytest_crucible.tinkering.waiting import check_answers

        self._secrets |= hosted_secrets(self.sdk)
        url = (os.environ.get("TINKER_BASE_URL") or HOSTED_URL).rstrip("/")
        check_answers(url)
        return {"base_url": url}

    def check(self) -> None:
        """Raise SpecError when the local server is gone."""
        if self.is_local and "server" in self.__dict__:
            from pytest_crucible.embedded.server.process import ServerFailed

            try:
                self.server.check()
            except ServerFailed as error:
                raise SpecError(self.hide(_in_one_line(error))) from None

    def hide(self, text: str) -> str:
        """The text without keys."""
        return hidden(text, self._secrets)

    # -- clients ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def base_model(self) -> str:
        """The model that is meant where none is named."""
        if self.is_local:
            return self._local_models[0]
        if self._base is None:
            raise SpecError(
                "the hosted Tinker service has many models: say which with crucible_tinker_base, or with base_model"
            )
        return self._base

    @functools.cached_property
    def _local_models(self) -> list[str]:
        from pytest_crucible.tinkering.waiting import models

        return models(self.server.url, self.server.key)

    def training_client(self, **options: Any) -> Any:
        """The SDK's TrainingClient of a new adapter; options are those of `create_lora_training_client`."""
        create = self.service.create_lora_training_client
        options = {"seed": self.seed, **options, "base_model": self.model(options.get("base_model"))}
        return self.within("make an adapter to train", lambda: create(**options))

    def sampling_client(self, *, model_path: str | None = None, base_model: str | None = None) -> Any:
        """The SDK's SamplingClient of a checkpoint or a base model."""
        create = self.service.create_sampling_client
        named = {"model_path": model_path} if model_path else {"base_model": self.model(base_model)}
        return self.within("open a model to sample from", lambda: create(**named))

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The base model's, as the SDK loads it."""
        return self.within("load the tokenizer", self.sampling_client().get_tokenizer)

    def model(self, named: str | None) -> str:
        """The full name of a base model: under the local one's short name transformers would find no tokenizer."""
        if named is None or (self.is_local and named in self._local_models):
            return self.base_model
        return named

    # -- waiting and closing ----------------------------------------------------------------------------------------

    def within(self, doing: str, call: Callable[[], Any]) -> Any:
        """What a call of the SDK gives, in time and with the local server alive."""
        from pytest_crucible.backends.tinker import sentence
        from pytest_crucible.tinkering.waiting import got, within

        where = "the local Tinker server" if self.is_local else "Tinker"
        self.check()
        try:
            return within(self._wait_s, lambda: got(call()), self.check)
        except CrucibleError:
            raise
        except TimeoutError:
            raise SpecError(f"{where} did not {doing} within {self._wait_s:g} s") from None
        except Exception as error:
            raise SpecError(self.hide(f"{where} did not {doing}: {sentence(error)}")) from None

    def close(self) -> None:
        """End the session, close connections, stop the server and put the environment back. Idempotent."""
        from pytest_crucible.tinkering.waiting import close_holder, close_service

        opened = self.__dict__
        rest, service, server = (opened.pop(name, None) for name in ("rest", "service", "server"))
        try:
            if rest is not None and self.is_local:  # a hosted one's connections are the whole process's
                close_holder(rest.holder)
            if service is not None:
                close_service(service, alive=server is None or server.process.poll() is None)
        finally:
            if server is not None:
                server.stop()
            self._restore_environment()

    def _restore_environment(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before.clear()


def _in_one_line(error: Exception) -> str:
    """A server's log may follow its end: the last line of it says why."""
    first, *rest = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{first} ... {rest[-1]}" if rest else first


_TINKERING = pytest.StashKey[Tinkering]()
