"""From an adapter's configuration to a backend on the session's Tinker."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.embedded.chat import TEMPLATE, rendered
from pytest_crucible.errors import Refused, SpecError
from pytest_crucible.options import read
from pytest_crucible.tinkering.places import OPTIONS, Place
from pytest_crucible.tinkering.session import tinkering

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker import TinkerBackend
    from pytest_crucible.embedded.tokens import Tokenizer
    from pytest_crucible.records import Adapter, TrainingResult

CHECKPOINT = "tinker://"
MODEL = ("model_path", "base_model")
_PATH = re.compile(r"tinker://[^/]+/[^/]+/[^/]+")


def open_tinker(config: pytest.Config, adapter: Adapter) -> TinkerBackend:
    """`model_path`: a checkpoint's path, `tinker://RUN/sampler_weights/NAME`; or `base_model`. The path is also a name itself.

    Both say from which base the checkpoint has to be. `base_url`, `api_key_env` and `project` name a service other than the
    session's own. Raises SpecError when there is no service, or it does not have the model.
    """
    model_path, base_model = _named(adapter)
    tinker = tinkering(config)
    service = tinker.of(adapter.name, adapter.options)
    from pytest_crucible.backends.tinker import TinkerBackend, sampling_params

    try:
        sampling_params(adapter.parameters)
    except Refused as error:
        raise SpecError(f"adapter {adapter.name!r}: {error}") from None
    is_own = not any(name in adapter.options for name in OPTIONS)
    base_model = tinker.model(base_model) if base_model and is_own else base_model
    client = service.sampling_client(model_path=model_path, base_model=None if model_path else base_model)
    trained_on = service.within("tell what it samples from", client.get_base_model)
    if base_model and not _is_called(trained_on, base_model):
        raise SpecError(
            f"adapter {adapter.name!r} has base_model {base_model!r}, but {model_path} was trained on {trained_on!r}"
        )
    is_local = is_own and tinker.is_local
    return TinkerBackend(
        client,
        own_tokenizer(trained_on) if is_local else service.within("load the tokenizer", client.get_tokenizer),
        identity=identity_of(service.place, model_path or trained_on, is_own=is_own, is_local=is_local),
        seed=tinker.seed,
        context=service.context_of(trained_on),
        server=f"{service.place.url} {digest(service.place.key)}",
        model=model_path or trained_on,
        training=_training_of(config, model_path),
        check=service.check,
        hide=tinker.hide,
    )


def _training_of(config: pytest.Config, model_path: str | None) -> TrainingResult | None:
    """How a checkpoint was trained, where a recipe of this project has made it."""
    from pytest_crucible.lessons import adapters_folder
    from pytest_crucible.training import trained_adapters

    made = trained_adapters(adapters_folder(config, read(config))) if model_path else []
    return next((one.lineage.result for one in made if one.lineage.checkpoint == model_path), None)


def _named(adapter: Adapter) -> tuple[str | None, str | None]:
    """Path and base model, one of which may be None."""
    if unknown := sorted(set(adapter.options) - {*MODEL, *OPTIONS}):
        raise SpecError(
            f"adapter {adapter.name!r} has {unknown[0]!r}, which backend 'tinker' does not know: "
            f"it takes {', '.join((*MODEL, *OPTIONS))}, and parameters"
        )
    path, base_model = (adapter.options.get(name) for name in MODEL)
    if not (path or base_model) or not all(one is None or isinstance(one, str) for one in (path, base_model)):
        raise SpecError(
            f'adapter {adapter.name!r} has backend \'tinker\': it needs model_path = "tinker://..." or base_model = "..."'
        )
    if path is not None and not _PATH.fullmatch(path):
        raise SpecError(f"adapter {adapter.name!r} has model_path {path!r}: write tinker://RUN/sampler_weights/NAME")
    return path, base_model


def _is_called(model: str, name: str) -> bool:
    """Whether a model goes by a name. That of a local server's is a path, which ends with its short name and a hash."""
    return name == model or f"/models/{name}-" in model


def identity_of(place: Place, model: str, *, is_own: bool, is_local: bool) -> str:
    """What answers. The local model's full name is a path; its end names the weights, wherever they are."""
    if is_local and not model.startswith(CHECKPOINT):
        model = "/".join(PurePosixPath(Path(model).as_posix()).parts[-2:])
    return model if is_own else f"{place.url} {model}"


def digest(key: str | None) -> str:
    """Tells keys apart without telling them."""
    return hashlib.sha256((key or "").encode()).hexdigest()[:8]


def own_tokenizer(model: str) -> _Own:
    """The local model's, without transformers, whose import alone takes seconds."""
    from pytest_crucible.embedded.tokens import Tokenizer

    return _Own(Tokenizer.load(Path(model) / "tokenizer.json"))


class _Own:
    """The package's tokenizer with transformers' manners."""

    chat_template = TEMPLATE

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = tokenizer.eos

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self._tokenizer.encode(text)  # which adds none

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        return self._tokenizer.decode(token_ids)  # which says nothing for special tokens

    def apply_chat_template(self, messages: Any, *, tokenize: bool, add_generation_prompt: bool) -> str:
        return rendered(messages)
