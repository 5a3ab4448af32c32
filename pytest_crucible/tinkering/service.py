"""One Tinker service in a session, with the SDK's clients of it, each made when first asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from pytest_crucible.errors import BackendError, CrucibleError, SpecError
from pytest_crucible.tinkering.places import Place

LOCAL, HOSTED = "the local Tinker server", "Tinker"


class Service:
    """What the SDK offers of one service. What goes wrong is a SpecError, in time.

    `check` raises BackendError when the service is gone, `hide` takes keys out of a sentence.
    """

    def __init__(
        self,
        place: Place,
        sdk: Any,
        *,
        name: str,
        wait_s: float,
        seed: int,
        check: Callable[[float], None],
        hide: Callable[[str], str],
        watched: Callable[[Any], None] = lambda holder: None,
    ) -> None:
        """`watched` is handed the holder of every connection that is opened."""
        self.place, self.sdk, self.name = place, sdk, name
        self.check, self.hide = check, hide
        self._wait_s, self._seed, self._watched = wait_s, seed, watched
        self._is_closed = False

    @property
    def _address(self) -> dict[str, str]:
        key = {} if self.place.key is None else {"api_key": self.place.key}
        return {"base_url": self.place.url, **key}

    @functools.cached_property
    def client(self) -> Any:
        """The SDK's ServiceClient, with its session open."""
        project = {} if self.place.project is None else {"project_id": self.place.project}
        client = self.sdk.ServiceClient(**self._address, **project)
        self._watched(self.within("open a session", lambda: client.holder))
        return client

    @functools.cached_property
    def rest(self) -> Any:
        """The SDK's RestClient."""
        if not hasattr(self.sdk, "RestClient"):  # before SDK 0.38
            return self.within("open a client", self.client.create_rest_client)
        return self.within("open a client", lambda: self.sdk.RestClient(**self._address))

    @functools.cached_property
    def contexts(self) -> Mapping[str, int | None]:
        """The models, and how many tokens each reads; none where the service does not tell."""
        from pytest_crucible.tinkering.waiting import models

        return models(self.place.url, self.place.key) if self.place.key else {}

    def context_of(self, model: str) -> int | None:
        """How many tokens a model reads; variants of a model are named after it, with a colon between."""
        return self.contexts.get(model) or self.contexts.get(model.partition(":")[0])

    def training_client(self, **options: Any) -> Any:
        """The SDK's TrainingClient of a new adapter; options are those of `create_lora_training_client`."""
        create = self.client.create_lora_training_client
        return self.within("make an adapter to train", lambda: create(**{"seed": self._seed, **options}))

    def resumed_client(self, state: str) -> Any:
        """The SDK's TrainingClient of a new adapter with the weights of a saved state; its optimiser begins anew."""
        create = self.client.create_training_client_from_state
        return self.within(f"go on from {state}", lambda: create(state))

    def sampling_client(self, *, model_path: str | None = None, base_model: str | None = None) -> Any:
        """The SDK's SamplingClient of a checkpoint or a base model."""
        create = self.client.create_sampling_client
        named = {"model_path": model_path} if model_path else {"base_model": base_model}
        return self.within("open a model to sample from", lambda: create(**named))

    def within(self, doing: str, call: Callable[[], Any]) -> Any:
        """What a call of the SDK gives, in time and with the service alive."""
        from pytest_crucible.backends.tinker_errors import sentence
        from pytest_crucible.tinkering.waiting import got, within

        try:
            self.check(0.0)
            return within(self._wait_s, lambda: got(call()), self.check)
        except BackendError as error:
            raise SpecError(str(error)) from None
        except CrucibleError:
            raise
        except TimeoutError:
            raise SpecError(f"{self.name} did not {doing} within {self._wait_s:g} s") from None
        except Exception as error:
            raise SpecError(self.hide(f"{self.name} did not {doing}: {sentence(error)}")) from None

    def close(self, *, alive: bool) -> None:
        """End the session and close what can be closed. One whose service is gone is told no more. Idempotent."""
        from pytest_crucible.tinkering.waiting import close_holder, close_service

        opened = self.__dict__
        rest, client = opened.pop("rest", None), opened.pop("client", None)
        if rest is not None and self.name == LOCAL:  # another one's connections are the whole process's
            close_holder(rest.holder)
        if client is not None:
            close_service(client, alive=alive)
