"""One Tinker service in a session, with the SDK's clients, each made on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_crucible.backends.tinker.service_address import ServiceAddress
from pytest_crucible.records.errors import BackendError, CrucibleError, Refused, ServiceLost, SpecError

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.polling import ListedModel

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
        from pytest_crucible.backends.tinker.polling import fetch_models

        return fetch_models(self.address.url, self.address.key) if self.address.key else {}

    def find_listed(self, model: str) -> ListedModel:
        """Return the service's entry of a model; variants of a model have its name, a colon and a suffix."""
        from pytest_crucible.backends.tinker.polling import ListedModel

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
        from pytest_crucible.backends.tinker.errors import error_text, is_lost
        from pytest_crucible.backends.tinker.polling import resolve_future, run_within

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
        from pytest_crucible.backends.tinker.polling import close_holder, close_service

        opened = self.__dict__
        rest, client = opened.pop("rest", None), opened.pop("client", None)
        # Connections to other services are shared by the whole process, so that only the local server's are closed.
        if rest is not None and self.name == LOCAL:
            close_holder(rest.holder)
        if client is not None:
            close_service(client, alive=alive)
