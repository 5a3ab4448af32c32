"""The optimiser of the base: Muon for the matrices inside the layers, Adam for the embedding, gains and smears.

Muon: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/. A step of momentum is made nearly orthogonal, so that
every direction of a matrix learns at the same pace.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
_MOMENTUM = 0.95
_BETAS = (0.9, 0.95)
_QUINTIC = (3.4445, -4.7750, 2.0315)
_FUSED = {"qkv": 3}
"""Matrices that are several side by side; each is made orthogonal for itself."""


def orthogonal(matrix: Array) -> Array:
    """The nearest matrix with all singular values near 1, by five Newton-Schulz iterations.

    >>> values = np.linalg.svd(orthogonal(np.diag([1.0, 5.0, 20.0]).astype(np.float32)), compute_uv=False)
    >>> bool(values.min() > 0.6 and values.max() < 1.3)
    True
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix) / (np.linalg.norm(matrix) + 1e-7)
    first, third, fifth = _QUINTIC
    for _ in range(5):
        square = x @ x.T
        x = first * x + (third * square + fifth * square @ square) @ x
    return x.T if tall else x


@dataclass
class Optimiser:
    """Momentum and moments of every weight; `step` changes the weights in place."""

    muon_rate: float
    adam_rate: float
    taken: int = 0
    _first: dict[str, Array] = field(default_factory=dict)
    _second: dict[str, Array] = field(default_factory=dict)

    def step(self, weights: dict[str, Array], gradients: dict[str, Array], share: float) -> None:
        """Take one step at a share of the full learning rates."""
        self.taken += 1
        for name, gradient in gradients.items():
            if not np.isfinite(gradient).all():
                raise FloatingPointError(f"step {self.taken}: the gradient of {name} is not finite")
            inner = gradient.ndim == 2 and name != "embedding"
            change = self._muon(name, gradient) if inner else self._adam(name, gradient)
            weights[name] -= np.float32(share * (self.muon_rate if inner else self.adam_rate)) * change

    def _muon(self, name: str, gradient: Array) -> Array:
        momentum = self._first.setdefault(name, np.zeros_like(gradient))
        momentum += (1 - _MOMENTUM) * (gradient - momentum)
        ahead = gradient + _MOMENTUM * (momentum - gradient)
        parts = np.split(ahead, _FUSED.get(name.rsplit(".", 1)[-1], 1), axis=1)
        return np.concatenate([orthogonal(part) * max(1.0, part.shape[1] / part.shape[0]) ** 0.5 for part in parts], 1)

    def _adam(self, name: str, gradient: Array) -> Array:
        first = self._first.setdefault(name, np.zeros_like(gradient))
        second = self._second.setdefault(name, np.zeros_like(gradient))
        first += (1 - _BETAS[0]) * (gradient - first)
        second += (1 - _BETAS[1]) * (gradient**2 - second)
        unbiased = [moment / (1 - beta**self.taken) for moment, beta in zip((first, second), _BETAS, strict=True)]
        step: Array = unbiased[0] / (np.sqrt(unbiased[1]) + 1e-10)
        return step
