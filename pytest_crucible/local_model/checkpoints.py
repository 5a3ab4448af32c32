"""Weights on disk, as safetensors: a base model, an adapter to sample from, and the state of a training.

Each file's header names its kind, its base model (by SHA-256) and its LoRA. Files are written completely or not at all.
Sampler weights are never overwritten. A place is a file, or a directory in which the file has its usual name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pytest_crucible.local_model.adam import Adam
from pytest_crucible.local_model.config import Shape, Weights, check_weights
from pytest_crucible.local_model.lora import Adapter, LoraSpec

SAMPLER_FILE, TRAINING_FILE, BASE_FILE = "adapter.safetensors", "training.safetensors", "model.safetensors"
EXTERNAL_FILE = "adapter_model.safetensors"
"""The adapter of a downloaded checkpoint, with the name that PEFT gives it."""
_FIRST, _SECOND, _STEPS = "adam.first.", "adam.second.", "adam.steps"


def save_base(place: Path, weights: Weights, shape: Shape) -> None:
    """Write a base model in half precision."""
    check_weights(weights, shape)
    # Half precision halves the size of the package.
    halves = {name: np.ascontiguousarray(weights[name], np.float16) for name in shape.of_weights}
    _write(_file(place, BASE_FILE), halves, {name: str(value) for name, value in asdict(shape).items()}, replace=True)


def load_base(place: Path) -> tuple[Weights, Shape, str]:
    """Return a base model's weights in single precision, their shape, and the SHA-256 of the file."""
    file = _file(place, BASE_FILE)
    tensors, about = _read(file)
    try:
        shape = Shape(**{name: int(about[name]) for name in Shape.__dataclass_fields__})
        weights = {name: tensor.astype(np.float32) for name, tensor in tensors.items()}
        check_weights(weights, shape)
    except KeyError as missing:
        raise ValueError(f"{file} is not a base model: its header has no {missing}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return weights, shape, hashlib.sha256(file.read_bytes()).hexdigest()


def save_sampler(place: Path, adapter: Adapter, base_sha256: str) -> None:
    """Write an adapter to sample from; FileExistsError where the file exists."""
    _write(_file(place, SAMPLER_FILE), adapter.factors, _about(adapter.spec, base_sha256), replace=False)


def load_sampler(place: Path, shape: Shape, base_sha256: str) -> Adapter:
    """Return an adapter to sample from; a training state contains one as well, and so does a downloaded checkpoint.

    Raises ValueError for a file that does not fit.
    """
    return _adapter(find_sampler_file(place), shape, base_sha256)[0]


def find_sampler_file(place: Path) -> Path:
    """Return the file that `load_sampler` reads."""
    return _file(place, SAMPLER_FILE, TRAINING_FILE, EXTERNAL_FILE)


def save_training(place: Path, adapter: Adapter, adam: Adam, base_sha256: str) -> None:
    """Write an adapter with Adam's means, so that training can resume exactly."""
    means = {_FIRST + name: mean for name, mean in adam.first.items()}
    means |= {_SECOND + name: mean for name, mean in adam.second.items()}
    about = {**_about(adapter.spec, base_sha256), _STEPS: str(adam.steps)}
    _write(_file(place, TRAINING_FILE), {**adapter.factors, **means}, about, replace=True)


def load_training(place: Path, shape: Shape, base_sha256: str) -> tuple[Adapter, Adam]:
    """Return the adapter and optimiser that `save_training` wrote; ValueError for a file that does not fit."""
    file = _file(place, TRAINING_FILE)
    adapter, others, about = _adapter(file, shape, base_sha256)
    first, second = (
        {name.removeprefix(kind): tensor for name, tensor in others.items() if name.startswith(kind)}
        for kind in (_FIRST, _SECOND)
    )
    complete = all(_sizes(means) in ({}, _sizes(adapter.factors)) for means in (first, second))
    if _STEPS not in about or not complete:
        raise ValueError(f"{file} has an adapter but no training state: use a file that save_state wrote")
    return adapter, Adam(first, second, int(about[_STEPS]))


def read_spec(place: Path) -> LoraSpec:
    """Return the LoRA of the sampler weights or the training state in a place."""
    file = _file(place, TRAINING_FILE, SAMPLER_FILE)
    return _spec(file, _read(file)[1])


def _adapter(file: Path, shape: Shape, base_sha256: str) -> tuple[Adapter, Weights, dict[str, str]]:
    tensors, about = _read(file)
    spec = _spec(file, about)
    if about["base_sha256"] != base_sha256:
        raise ValueError(f"{file} belongs to base model {about['base_sha256'][:12]}, this one is {base_sha256[:12]}")
    expected = spec.of_factors(shape)
    others = {name: tensor for name, tensor in tensors.items() if name not in expected}
    for name, size in expected.items():
        actual = tensors[name].shape if name in tensors else "no values"
        if actual != size:
            raise ValueError(f"{file}: {name} has {actual}, a rank of {spec.rank} on this base needs {size}")
        if tensors[name].dtype != np.float32:
            raise ValueError(f"{file}: {name} has numbers of type {tensors[name].dtype}, expected float32")
        if not np.isfinite(tensors[name]).all():
            raise ValueError(f"{file}: {name} is not finite everywhere")
    return Adapter(spec, {name: tensors[name] for name in expected}), others, about


def _sizes(tensors: Weights) -> dict[str, tuple[int, ...]]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _spec(file: Path, about: dict[str, str]) -> LoraSpec:
    try:
        return LoraSpec(**json.loads(about["lora"]))
    except (KeyError, TypeError, json.JSONDecodeError):
        raise ValueError(f"{file} is not an adapter of this package") from None


def _about(spec: LoraSpec, base_sha256: str) -> dict[str, str]:
    return {"lora": json.dumps(asdict(spec)), "base_sha256": base_sha256}


def _file(place: Path, *names: str) -> Path:
    """Return the place itself; for a directory the first of the named files that exists, or the first name."""
    files = [place / name for name in names]
    return next((file for file in files if file.exists()), files[0]) if place.is_dir() else place


def _read(file: Path) -> tuple[Weights, dict[str, str]]:
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist")
    try:
        with safe_open(file, framework="numpy") as content:
            names = content.keys()
            return {name: content.get_tensor(name) for name in names}, content.metadata() or {}
    # The last two are raised for numbers that numpy lacks, such as bfloat16 and float8.
    except (SafetensorError, OSError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} cannot be read as safetensors: {error}") from None


def _write(file: Path, tensors: Weights, about: dict[str, str], *, replace: bool) -> None:
    """Write to a neighbouring file first, so that a reader never sees half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = _in_order(save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, metadata=about))
    # In the same directory: a rename is atomic only within one file system.
    handle, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(handle, "wb") as file_object:
            file_object.write(content)
        # mkstemp creates files that only their owner can read.
        os.chmod(draft, 0o644)
        if replace:
            os.replace(draft, file)
        else:
            _publish(Path(draft), file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def _in_order(content: bytes) -> bytes:
    """Return a file with its metadata in order: safetensors writes them in a random one, and equal weights have one hash."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    # Tensors start at a multiple of 8 bytes.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def _publish(draft: Path, file: Path) -> None:
    """Rename a draft unless the name was taken meanwhile.

    Where links are impossible, a short race remains.
    """
    try:
        # Unlike rename, link fails when the name exists.
        os.link(draft, file)
    except FileExistsError:
        raise _already_exists(file) from None
    except OSError:
        if file.exists():
            raise _already_exists(file) from None
        os.replace(draft, file)


def _already_exists(file: Path) -> FileExistsError:
    return FileExistsError(f"{file} exists already: sampler weights are never changed, choose another name")
