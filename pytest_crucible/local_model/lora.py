"""LoRA: a trained low-rank change A @ B added to chosen matrices. Hu et al. 2022.

W + scale * A @ B, with A normal of variance 1 / inputs, B zero at first and scale = 32 / rank, so that good learning
rates depend little on the rank. In the attention the fused queries, keys and values and the output matrix are changed;
in the MLP both matrices; the unembedding, which the base shares with its embedding, gets its own change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.local_model.config import Floats, Shape, Weights
from pytest_crucible.local_model.model import gain_of

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

    def merge_into(self, weights: Weights) -> Weights:
        """Return the base's weights with the change added. Unchanged arrays are shared, not copied."""
        # "layers.0.qkv.A" and "layers.0.qkv.B" change "layers.0.qkv".
        changed = {name.rpartition(".")[0] for name in self.factors}
        return {**weights, **{name: self._change_matrix(name, weights) for name in sorted(changed)}}

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
