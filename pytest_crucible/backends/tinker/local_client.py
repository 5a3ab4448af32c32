"""The SDK's ServiceClient on the local Tinker server: base models have their full names there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def local_service_client(sdk: Any, full_name: Callable[[str | None], str | None], **connection: Any) -> Any:
    """Return a ServiceClient that opens base models by their full names.

    The SDK's sampling clients look for their tokenizer by the name that they were created with. The full name is a directory;
    for the short one, transformers would try to reach a hub for most of a minute.
    """

    class LocalServiceClient(sdk.ServiceClient):  # type: ignore[misc]  # the SDK is imported only where it is used
        def create_sampling_client(
            self, model_path: str | None = None, base_model: str | None = None, *rest: Any, **options: Any
        ) -> Any:
            return super().create_sampling_client(model_path, full_name(base_model), *rest, **options)

        async def create_sampling_client_async(
            self, model_path: str | None = None, base_model: str | None = None, *rest: Any, **options: Any
        ) -> Any:
            return await super().create_sampling_client_async(model_path, full_name(base_model), *rest, **options)

    return LocalServiceClient(**connection)
