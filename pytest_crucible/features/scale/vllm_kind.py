"""Adapters with `backend = "vllm"`: a model in a local folder, and a LoRA adapter in another, in the process of a worker."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.adapter_kind import AdapterKind, check_options, option_path, required_text
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.records import Adapter, Request
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import hash_file

if TYPE_CHECKING:
    from pytest_crucible.backends import Backend

BACKEND = "vllm"
OPTIONS = ("model", "lora", "system", "engine", "resources")
# Of weights of gigabytes, both ends are hashed: their header, with names and shapes, and the last tensors.
_WHOLE, _END = 64 * 2**20, 2**20


def open_vllm(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open `model` with `lora`, which are folders; no weights are loaded before a request. Raises SpecError."""
    from pytest_crucible.features.scale.vllm_backend import SharedEngine, VllmBackend, sampling_arguments

    check_options(adapter, OPTIONS)
    required_text(adapter, "model")
    if importlib.util.find_spec("vllm") is None:
        raise SpecError(
            f"adapter {adapter.name!r} has backend 'vllm': install it with pip install \"pytest-crucible[vllm]\""
        )
    try:
        sampling_arguments(Request(input="", sample="", repeat=0, parameters=adapter.parameters))
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has invalid parameters: {error}") from None
    model, lora = (_folder(adapter, name, context.root) for name in ("model", "lora"))
    assert model is not None
    system, arguments = adapter.options.get("system", ""), _table(adapter, "engine")
    engines = context.of_features.setdefault(BACKEND, {})
    engine = engines.setdefault((model, repr(sorted(arguments.items()))), SharedEngine(model, arguments))
    parts = [_digest(model), "" if lora is None else _digest(lora), system, repr(sorted(arguments.items()))]
    return VllmBackend(
        engine,
        name=adapter.name,
        identity=f"vllm {hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}",
        lora=lora,
        system=system,
        simulated=_is_stand_in(),
    )


def worker_resources(adapters: Iterable[Adapter]) -> dict[str, float]:
    """Return what one worker needs for the engines of these adapters, which share an engine where the model is the same.

    >>> table = {"model": "m", "resources": {"GPU": 1}}
    >>> worker_resources([Adapter(name=name, backend="vllm", options=table) for name in ("v1", "v2")])
    {'GPU': 1.0}
    """
    engines = {
        (adapter.options.get("model"), repr(adapter.options.get("engine"))): _table(adapter, "resources")
        for adapter in adapters
        if adapter.backend == BACKEND
    }
    total: dict[str, float] = {}
    for resources in engines.values():
        for name, amount in resources.items():
            total[name] = total.get(name, 0.0) + float(amount)
    return total


def missing_resources(nodes: Mapping[str, Mapping[str, float]], needed: Mapping[str, float]) -> list[str]:
    """Return a sentence for each node that has too little of a resource.

    >>> missing_resources({"gpu-1": {"CPU": 8.0}}, {"GPU": 1.0})
    ['gpu-1 has 0 GPU, and a worker needs 1: give the node more, or correct `resources` of the adapter']
    """
    return [
        f"{node} has {has.get(name, 0):g} {name}, and a worker needs {amount:g}: "
        "give the node more, or correct `resources` of the adapter"
        for node, has in nodes.items()
        for name, amount in needed.items()
        if has.get(name, 0) < amount
    ]


def _folder(adapter: Adapter, name: str, root: Path) -> Path | None:
    path = option_path(adapter, name, root)
    if path is not None and not path.is_dir():
        raise SpecError(
            f"adapter {adapter.name!r} has {name} = {adapter.options[name]!r}, which is not a folder on this machine: "
            "download it, and write its path"
        )
    return path


def _table(adapter: Adapter, name: str) -> dict[str, Any]:
    table = adapter.options.get(name, {})
    if not isinstance(table, Mapping):
        raise SpecError(f"adapter {adapter.name!r} has {name} = {table!r}: write {name} = {{ ... }}")
    return dict(table)


def _digest(folder: Path) -> str:
    """Return a hash of a folder's files: whole ones, and both ends of large weights with their size."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    parts = [(path.relative_to(folder).as_posix(), _file_digest(path)) for path in files]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    size = path.stat().st_size
    if size <= _WHOLE:
        return hash_file(path)
    with path.open("rb") as file:
        start = file.read(_END)
        file.seek(-_END, 2)
        return f"{size} {hashlib.sha256(start + file.read()).hexdigest()}"


def _is_stand_in() -> bool:
    """Return whether the module is not that of an installed vLLM, such as in tests."""
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return True
    return False


KINDS = (AdapterKind(name=BACKEND, open=open_vllm, is_seeded=True, is_free=True, sends_messages=True),)
