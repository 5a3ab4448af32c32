"""A scripted server for the tests of a file, and backends that ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer

from pytest_crucible.backends.openai.backend import OpenAIBackend, open_openai
from pytest_crucible.records import Adapter, Reply, Request

Ask = Callable[..., Reply]


@pytest.fixture(scope="module")
def scripted_server() -> Iterator[OpenAIServer]:
    with OpenAIServer.start() as server:
        yield server


@pytest.fixture
def server(scripted_server: OpenAIServer) -> OpenAIServer:
    scripted_server.reset()
    return scripted_server


@pytest.fixture
def open_backend(server: OpenAIServer) -> Callable[..., OpenAIBackend]:
    """A backend of the server; options, and `parameters`, as an adapter has them."""

    def open_backend(*, parameters: dict[str, Any] | None = None, **options: Any) -> OpenAIBackend:
        settings = {"base_url": server.url, "model": "m", **options}
        return open_openai(
            Adapter(name="v2", backend="openai", options=settings, parameters=parameters or {}), Path(".")
        )

    return open_backend


@pytest.fixture
def ask(open_backend) -> Ask:
    """The reply to one input; options of the adapter, and `parameters` of the request."""

    def ask(prompt: Any = "one two three", *, sample: str = "a", repeat: int = 0, **options: Any) -> Reply:
        request = Request(input=prompt, sample=sample, repeat=repeat, parameters=options.pop("parameters", {}))
        return asyncio.run(open_backend(**options).generate(request))

    return ask
