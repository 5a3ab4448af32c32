"""URIs that name an adapter: `recorded:PATH`, `local:CHECKPOINT`, `tinker://...`, `tinker:BASE_MODEL`, `openai+http://HOST:PORT/v1#MODEL`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_crucible.records.errors import SpecError

ReadUri = Callable[[str, str], Mapping[str, Any]]
"""Returns the options that a URI stands for; takes the URI and the adapter's name."""


@dataclass(frozen=True)
class UriForm:
    """The URIs of one kind of adapter."""

    schemes: tuple[str, ...]
    read: ReadUri

    def matches(self, scheme: str) -> bool:
        """Return whether the form has this scheme; openai+ftp counts as one, although the server's URL is then refused."""
        return _family(scheme) in map(_family, self.schemes)


def _family(scheme: str) -> str:
    name, plus, _ = scheme.partition("+")
    return name + plus


def read_rest(option: str) -> ReadUri:
    """Return a reader that sets an option to the part after the scheme.

    >>> read_rest("path")("recorded:answers/v2.jsonl", "v2")
    {'path': 'answers/v2.jsonl'}
    """
    return lambda uri, adapter: {option: uri.partition(":")[2]}


def read_tinker(uri: str, adapter: str) -> Mapping[str, Any]:
    """Return the checkpoint of a Tinker service that a URI names, or the base model.

    >>> read_tinker("tinker://RUN/sampler_weights/v2", "v2"), read_tinker("tinker:Qwen/Qwen3-8B", "base")
    ({'model_path': 'tinker://RUN/sampler_weights/v2'}, {'base_model': 'Qwen/Qwen3-8B'})
    """
    name = uri.partition(":")[2]
    # The scheme is part of Tinker's paths.
    return {"model_path": uri} if name.startswith("/") else {"base_model": name}


def read_server(uri: str, adapter: str) -> Mapping[str, Any]:
    """Return URL and model of an OpenAI-compatible server. Raises SpecError for a URI without a model.

    >>> read_server("openai+http://localhost:8000/v1#v2", "v2")
    {'base_url': 'http://localhost:8000/v1', 'model': 'v2'}
    """
    prefix, _, address = uri.partition("+")
    url, _, model = address.partition("#")
    if not model:
        raise SpecError(f"adapter {adapter!r} names no model: write {prefix}+{url}#MODEL")
    return {"base_url": url, "model": model}
