"""The dimensions of a model, the names of its weights, and the rows of tokens that it reads.

A model is a decoder-only transformer: tied embedding, pre-RMSNorm, rotary positions, smeared keys, ReLU^2 MLP, no biases.
Its weights are a plain dict from name to array, all of one dtype (float32; float64 where gradients are checked):

    embedding               (vocabulary, width)     input rows, and transposed the output matrix ("tied")
    norm                    (width,)                gain of the last RMSNorm
    layers.I.attention_norm (width,)
    layers.I.qkv            (width, 3 * width)      queries, keys, values side by side; heads within each
    layers.I.smear          (width,)                how much of each key channel comes from the token before
    layers.I.out            (width, width)
    layers.I.mlp_norm       (width,)
    layers.I.up             (width, mlp)
    layers.I.down           (mlp, width)

Matrices are stored (inputs, outputs): y = x @ W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_crucible.quick_dataclass import dataclass

Floats: TypeAlias = NDArray[np.floating]
Integers: TypeAlias = NDArray[np.integer]
Weights: TypeAlias = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model.

    >>> Shape(vocabulary=1024, width=128, layers=4, heads=4, mlp=512, context=512).parameters
    919168
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    mlp: int
    context: int

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.width % (2 * self.heads):
            raise ValueError(f"a width of {self.width} cannot be split into {self.heads} heads of even width")

    @property
    def head(self) -> int:
        """The width of one head."""
        return self.width // self.heads

    @property
    def of_weights(self) -> dict[str, tuple[int, ...]]:
        """Return name and shape of every weight, in the order in which they are saved."""
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocabulary, self.width), "norm": (self.width,)}
        for layer in range(self.layers):
            of_layer = {
                "attention_norm": (self.width,),
                "qkv": (self.width, 3 * self.width),
                "smear": (self.width,),
                "out": (self.width, self.width),
                "mlp_norm": (self.width,),
                "up": (self.width, self.mlp),
                "down": (self.mlp, self.width),
            }
            shapes |= {f"layers.{layer}.{name}": shape for name, shape in of_layer.items()}
        return shapes

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.of_weights.values())


def check_weights(weights: Weights, shape: Shape) -> None:
    """Raise ValueError when a weight is missing, unknown, of the wrong shape or not finite."""
    expected = shape.of_weights
    if mismatched := sorted(set(weights) ^ set(expected)):
        raise ValueError(f"these weights are missing or unknown: {', '.join(mismatched)}")
    for name, size in expected.items():
        if weights[name].shape != size:
            raise ValueError(f"{name} has shape {weights[name].shape}, expected {size}")
        if not np.isfinite(weights[name]).all():
            raise ValueError(f"{name} is not finite everywhere")


@dataclass(frozen=True, slots=True)
class Datum:
    """One row: position i of `tokens` predicts `inputs["target_tokens"][i]`.

    The other inputs (weights; or logprobs and advantages) have one number per position as well; each loss lists its
    own.
    """

    tokens: Sequence[int]
    inputs: Mapping[str, NDArray[np.number]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", {name: np.asarray(values) for name, values in self.inputs.items()})


def pad_rows(rows: Sequence[ArrayLike], fill: float) -> NDArray[np.number]:
    """Return rows of different lengths as one array, padded on the right."""
    arrays = [np.asarray(row) for row in rows]
    longest = max(len(array) for array in arrays)
    result = np.full(
        (len(arrays), longest), fill, np.result_type(*(array.dtype for array in arrays if array.size), type(fill))
    )
    for index, array in enumerate(arrays):
        result[index, : len(array)] = array
    return result
