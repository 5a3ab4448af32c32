"""Adam with decoupled weight decay, over a dict of arrays. Kingma & Ba 2015; Loshchilov & Hutter 2019."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from pytest_crucible.local_model.config import Floats


class NotFinite(ValueError):
    """A loss or gradients that are not finite: training cannot continue from there."""


@dataclass(frozen=True, slots=True)
class AdamParams:
    """The settings of one step, with Tinker's names and defaults. A `grad_clip_norm` of 0 disables clipping."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{setting.name} must be 0 or more, not {value}")
        if max(self.beta1, self.beta2) >= 1:
            raise ValueError(f"beta1 and beta2 must be below 1, not {self.beta1} and {self.beta2}")


@dataclass(slots=True)
class Adam:
    """Running means of gradients and of their squares, and the number of steps so far.

    >>> values = {"x": np.array([1.0])}
    >>> metrics = Adam().step(values, {"x": np.array([5.0])}, AdamParams(learning_rate=0.1))
    >>> values["x"].round(6).tolist(), metrics
    ([0.9], {'grad_norm:mean': 5.0})
    """

    first: dict[str, Floats] = field(default_factory=dict)
    second: dict[str, Floats] = field(default_factory=dict)
    steps: int = 0

    def step(self, values: dict[str, Floats], gradients: Mapping[str, Floats], params: AdamParams) -> dict[str, float]:
        """Move the values in place and return the norm of all gradients together, before clipping.

        Raises NotFinite for gradients that are not finite; the values have not moved then.
        """
        norm = math.sqrt(sum(float(np.vdot(gradient, gradient)) for gradient in gradients.values()))
        if not math.isfinite(norm):
            raise NotFinite("the gradients are not finite")
        scale = params.grad_clip_norm / norm if 0 < params.grad_clip_norm < norm else 1.0
        self.steps += 1
        for name, gradient in gradients.items():
            self._move(name, values[name], gradient if scale == 1.0 else gradient * scale, params)
        return {"grad_norm:mean": norm}

    def _move(self, name: str, value: Floats, gradient: Floats, params: AdamParams) -> None:
        first = self.first.setdefault(name, np.zeros_like(value))
        second = self.second.setdefault(name, np.zeros_like(value))
        first += (1 - params.beta1) * (gradient - first)
        second += (1 - params.beta2) * (gradient * gradient - second)
        # Both means start at 0; the divisors correct that bias (Kingma & Ba 2015, algorithm 1).
        update = first / (1 - params.beta1**self.steps)
        update /= np.sqrt(second / (1 - params.beta2**self.steps)) + params.eps
        # Decoupled: the decay is not divided by the gradients' scale (Loshchilov & Hutter 2019).
        if params.weight_decay:
            update += params.weight_decay * value
        value -= params.learning_rate * update
