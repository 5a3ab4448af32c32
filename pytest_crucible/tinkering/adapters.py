"""From an adapter's configuration to a backend on the session's Tinker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.errors import BackendError, Refused, SpecError
from pytest_crucible.tinkering.session import Tinkering, tinkering

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker import TinkerBackend
    from pytest_crucible.embedded.tokens import Tokenizer
    from pytest_crucible.records import Adapter

CHECKPOINT = "tinker://"
OPTIONS = ("model_path", "base_model")


def open_tinker(config: pytest.Config, adapter: Adapter) -> TinkerBackend:
    """`model_path`: a checkpoint's path, `tinker://RUN/sampler_weights/NAME`; or `base_model`. The path is also a name itself.

    Raises SpecError when there is no service, or it does not have the model.
    """
    model_path, base_model = _named(adapter)
    tinker = tinkering(config)
    tinker.sdk  # noqa: B018  its absence is told before anything starts
    from pytest_crucible.backends.tinker import TinkerBackend, sampling_params

    try:
        sampling_params(adapter.parameters)
    except Refused as error:
        raise SpecError(f"adapter {adapter.name!r}: {error}") from None
    client = tinker.sampling_client(model_path=model_path, base_model=base_model)
    return TinkerBackend(
        client,
        _own_tokenizer(tinker) if tinker.is_local else tinker.within("load the tokenizer", client.get_tokenizer),
        identity=model_path or _identity(tinker, base_model),
        seed=tinker.seed,
        check=lambda: _check(tinker),
        hide=tinker.hide,
    )


def _named(adapter: Adapter) -> tuple[str | None, str | None]:
    """Path and base model, one of which is None."""
    if adapter.name.startswith(CHECKPOINT) and "model_path" not in adapter.options:
        return adapter.name, None
    unknown = sorted(set(adapter.options) - set(OPTIONS))
    if unknown:
        raise SpecError(
            f"adapter {adapter.name!r} has {unknown[0]!r}, which backend 'tinker' does not know: "
            f"it takes {', '.join(OPTIONS)}, and parameters"
        )
    path, base_model = (adapter.options.get(name) for name in OPTIONS)
    if (path is None) == (base_model is None) or not isinstance(path or base_model, str):
        raise SpecError(
            f'adapter {adapter.name!r} has backend \'tinker\': it needs model_path = "tinker://..." or base_model = "..."'
        )
    if path is not None and not path.startswith(CHECKPOINT):
        raise SpecError(f"adapter {adapter.name!r} has model_path {path!r}: write tinker://RUN/sampler_weights/NAME")
    return path, base_model


def _identity(tinker: Tinkering, base_model: str | None) -> str:
    """The local model's full name is a path; its end names the weights, wherever they are."""
    name = tinker.model(base_model)
    return "/".join(PurePosixPath(Path(name).as_posix()).parts[-2:]) if tinker.is_local else name


def _check(tinker: Tinkering) -> None:
    try:
        tinker.check()
    except SpecError as error:
        raise BackendError(str(error)) from None


def _own_tokenizer(tinker: Tinkering) -> _Own:
    """The local model's, without transformers, whose import alone takes seconds."""
    from pytest_crucible.embedded.tokens import Tokenizer

    return _Own(Tokenizer.load(Path(tinker.base_model) / "tokenizer.json"))


class _Own:
    """The package's tokenizer with transformers' manners."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return self._tokenizer.decode(token_ids)  # which says nothing for special tokens
