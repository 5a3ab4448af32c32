"""Sampling clients of the SDK find the tokenizer of a local server's model, by either name and in either SDK."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_crucible.backends.tinker.services import ask_servers_for_tokenizers
from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.engine import Engine


def make_sdk(directory: Path | None, *, is_private_there: bool = True) -> Any:
    """An SDK like 0.38: a sampling client knows its name, and can request its server's."""

    class SamplingClient:
        def __init__(self, name: str) -> None:
            self.name = name

        def get_base_model(self) -> str:
            return self.name

        def get_tokenizer(self) -> str:
            return f"the hub's {self.name}"

        def _get_sampler_submit(self) -> Future[Any]:
            response: Future[Any] = Future()
            response.set_result(SimpleNamespace(base_model=directory))
            return response

    if not is_private_there:
        del SamplingClient._get_sampler_submit
    return SimpleNamespace(SamplingClient=SamplingClient)


@pytest.mark.slow
def test_local_tokenizer_is_looked_up_at_the_server(tmp_path):
    pytest.importorskip("transformers")
    tokenizer = Engine.load_packaged().tokenizer
    tokenizer.save_for_transformers(tmp_path)
    sdk = make_sdk(tmp_path)
    ask_servers_for_tokenizers(sdk)

    assert sdk.SamplingClient(BASE_MODEL).get_tokenizer().encode("claim 7") == tokenizer.encode("claim 7")


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "/somewhere/models/crucible/tiny-12345678"])
def test_other_tokenizers_are_left_to_the_sdk(name):
    sdk = make_sdk(None)
    ask_servers_for_tokenizers(sdk)

    assert sdk.SamplingClient(name).get_tokenizer() == f"the hub's {name}"


def test_sdk_without_the_request_is_unchanged():
    sdk = make_sdk(None, is_private_there=False)
    ask_servers_for_tokenizers(sdk)

    assert sdk.SamplingClient(BASE_MODEL).get_tokenizer() == f"the hub's {BASE_MODEL}"


def test_lookup_is_undone():
    sdk = make_sdk(None)
    original = sdk.SamplingClient.get_tokenizer
    undo = ask_servers_for_tokenizers(sdk)
    assert sdk.SamplingClient.get_tokenizer is not original

    undo()

    assert sdk.SamplingClient.get_tokenizer is original
