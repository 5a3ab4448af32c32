"""LoRA adapters, and weights on disk: a base model, an adapter to sample from, and the state of a training.

LoRA adds a trained low-rank change A @ B to chosen matrices (Hu et al. 2022): W + scale * A @ B, with A normal of variance
1 / inputs, B zero at first and scale = 32 / rank, so that good learning rates depend little on the rank. In the attention the
fused queries, keys and values and the output matrix are changed; in the MLP both matrices; the unembedding, which the base shares
with its embedding, gets its own change.

Files are safetensors, whose header names their kind, base model (by SHA-256) and LoRA. They are written completely or not at all.
Sampler weights are never overwritten. A place is a file, or a directory in which the file has its usual name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pytest_crucible.local_model.config import Floats, Shape, Weights, check_weights
from pytest_crucible.local_model.losses import Adam
from pytest_crucible.local_model.model import gain_of
from pytest_crucible.quick_dataclass import dataclass

# A rank of 32 has a scale of 1.
ALPHA = 32.0
# More would be memory for nothing: the largest matrix of the packaged model has rank 128.
LARGEST_RANK = 512


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """The kind of an adapter: its rank, the seed of its first values, and the matrices that it changes."""

    rank: int = 32
    seed: int = 0
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= LARGEST_RANK:
            raise ValueError(f"the rank must be 1 to {LARGEST_RANK}, not {self.rank}")
        if self.seed < 0:
            raise ValueError(f"the seed must be 0 or more, not {self.seed}")
        if not (self.train_attn or self.train_mlp or self.train_unembed):
            raise ValueError("nothing to train: attention, MLP and unembedding are all off")

    @property
    def scale(self) -> float:
        """The factor of A @ B."""
        return ALPHA / self.rank

    def matrices(self, shape: Shape) -> dict[str, tuple[int, int]]:
        """Return name and shape of every matrix that is changed."""
        parts = ["qkv", "out"] * self.train_attn + ["up", "down"] * self.train_mlp
        sizes = shape.of_weights
        names = [f"layers.{layer}.{part}" for layer in range(shape.layers) for part in parts]
        matrices = {name: (sizes[name][0], sizes[name][1]) for name in names}
        return matrices | ({"unembedding": (shape.width, shape.vocabulary)} if self.train_unembed else {})

    def of_factors(self, shape: Shape) -> dict[str, tuple[int, int]]:
        """Return name and shape of every factor.

        >>> LoraSpec(rank=2, train_attn=False, train_mlp=False).of_factors(Shape(9, 4, 1, 1, 8, 16))
        {'unembedding.A': (4, 2), 'unembedding.B': (2, 9)}
        """
        factors: dict[str, tuple[int, int]] = {}
        for name, (inputs, outputs) in self.matrices(shape).items():
            factors |= {f"{name}.A": (inputs, self.rank), f"{name}.B": (self.rank, outputs)}
        return factors


@dataclass(frozen=True, slots=True)
class Adapter:
    """The factors of an adapter: "layers.0.qkv.A" (inputs, rank), "layers.0.qkv.B" (rank, outputs), ..."""

    spec: LoraSpec
    factors: Weights

    @staticmethod
    def initial(spec: LoraSpec, shape: Shape) -> Adapter:
        """Return an adapter that changes nothing yet."""
        random = np.random.Generator(np.random.Philox(spec.seed))
        factors: Weights = {}
        for name, size in spec.of_factors(shape).items():
            # B is zero at first, so that training starts from the base model itself.
            values = random.normal(0.0, size[0] ** -0.5, size) if name.endswith(".A") else np.zeros(size)
            factors[name] = values.astype(np.float32)
        return Adapter(spec, factors)

    @property
    def changes_nothing(self) -> bool:
        """True where the product of each pair of factors is 0, so that the adapter answers as its base."""
        pairs = {name.rpartition(".")[0] for name in self.factors}
        return not self.spec.scale or not any(
            self.factors[f"{name}.A"].any() and self.factors[f"{name}.B"].any() for name in pairs
        )

    @property
    def norm(self) -> float:
        """The norm of the change of all matrices together (Frobenius), without making them: |A B|^2 = tr(A'A BB')."""
        pairs = {name.rpartition(".")[0] for name in self.factors}
        products = (
            (self.factors[f"{name}.A"].astype(np.float64), self.factors[f"{name}.B"].astype(np.float64))
            for name in pairs
        )
        squares = sum(float(np.sum((a.T @ a) * (b @ b.T))) for a, b in products)
        return self.spec.scale * math.sqrt(max(squares, 0.0))

    def merge_into(self, weights: Weights) -> Weights:
        """Return the base's weights with the change added. Unchanged arrays are shared, not copied."""
        # "layers.0.qkv.A" and "layers.0.qkv.B" change "layers.0.qkv".
        changed = {name.rpartition(".")[0] for name in self.factors}
        return {**weights, **{name: self._change_matrix(name, weights) for name in sorted(changed)}}

    def fold_factors(self, weights: Weights) -> dict[str, tuple[Floats, Floats]]:
        """Return the factors of each matrix that the adapter changes, for `Decodable`; none where it changes nothing."""
        if self.changes_nothing:
            return {}
        return {name: self._fold_pair(name, weights) for name in {key.rpartition(".")[0] for key in self.factors}}

    def _fold_pair(self, name: str, weights: Weights) -> tuple[Floats, Floats]:
        gain, down = gain_of(name), self.factors[f"{name}.A"]
        up: Floats = self.spec.scale * self.factors[f"{name}.B"]
        # A copy, because training changes the factors in place.
        return down.copy() if gain is None else weights[gain][:, None] * down, up

    def _change_matrix(self, name: str, weights: Weights) -> Floats:
        change = self.factors[f"{name}.A"] @ self.factors[f"{name}.B"]
        change *= self.spec.scale
        change += weights["embedding"].T if name == "unembedding" else weights[name]
        return change


class AdapterGradients:
    """Collects the gradients of an adapter's factors during the backward pass; see `model.Collect`.

    It receives gradients of folded matrices, gain * (W + scale * A @ B). So with A' = gain * A, the derivative of B is
    scale * (x A')^T dy, and that of A is gain * scale * x^T (dy B^T).
    """

    def __init__(self, adapter: Adapter, weights: Weights) -> None:
        self.adapter = adapter
        self.weights = weights
        self.gradients: Weights = {}

    def __call__(self, name: str, inputs: Floats, d_outputs: Floats) -> None:
        """Take one matrix's inputs and the gradient of its outputs."""
        if f"{name}.A" not in self.adapter.factors:
            return
        a, b = self.adapter.factors[f"{name}.A"], self.adapter.factors[f"{name}.B"]
        gain = gain_of(name)
        gained = a if gain is None else self.weights[gain][:, None] * a
        self.gradients[f"{name}.B"] = self.adapter.spec.scale * ((inputs @ gained).T @ d_outputs)
        d_a = self.adapter.spec.scale * (inputs.T @ (d_outputs @ b.T))
        self.gradients[f"{name}.A"] = d_a if gain is None else self.weights[gain][:, None] * d_a


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
    except OSError:
        if file.exists():
            sentence = f"{file} exists already: sampler weights are never changed, choose another name"
            raise FileExistsError(sentence) from None
        os.replace(draft, file)
