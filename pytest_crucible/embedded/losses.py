"""Losses over the log-probabilities of targets, with their gradients: Tinker's names, inputs and formulas.

All are sums over positions, with p = exp(logprobs), q = exp(inputs["logprobs"]) and A = inputs["advantages"]:

    cross_entropy        -sum(weights * log p)
    importance_sampling  -sum(p / q * A)
    ppo                  -sum(min(p / q * A, clip(p / q, low, high) * A))        low 0.8, high 1.2
    cispo                -sum(clip(p / q, low, high) * A * log p), clip constant  low 0.0, high 4.0
    dro                  -sum(A * log p - beta / 2 * (log p - log q)^2)           beta 0.05

Inputs have one number per position, in arrays of the shape of `logprobs`. `clip_low_threshold` and `clip_high_threshold`
may be given in the configuration, or as inputs, one per position. Schulman et al. 2017 (ppo); MiniMax 2025 (cispo);
Richemond et al. 2024 (dro); https://tinker-docs.thinkingmachines.ai/tinker/losses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.embedded.shape import Floats

Inputs: TypeAlias = Mapping[str, Floats]
Settings: TypeAlias = Mapping[str, float | Floats]
Config: TypeAlias = Mapping[str, float]
Judged: TypeAlias = tuple[float, Floats, dict[str, Floats], dict[str, float]]
"""Sum of the loss, its derivative by each log-probability, outputs by position, metrics ("name:reduction")."""

_CLIPS = ("clip_low_threshold", "clip_high_threshold")


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss: the inputs that it needs, what may be set and to what it is set else, and its formula."""

    name: str
    needs: tuple[str, ...]
    defaults: Mapping[str, float]
    formula: Callable[[Floats, Inputs, Settings], tuple[Floats, Floats]]

    def __call__(
        self, logprobs: Floats, inputs: Mapping[str, NDArray[np.number]], config: Config | None = None
    ) -> Judged:
        """Loss and derivative. Missing, unknown or misshapen inputs and unknown settings raise ValueError.

        >>> loss, derivative, outputs, metrics = LOSSES["cross_entropy"](np.log([0.5, 0.25]), {"weights": np.ones(2)})
        >>> round(loss, 4), derivative.tolist(), metrics == {"loss:sum": loss}
        (2.0794, [-1.0, -1.0], True)
        """
        self._check(logprobs, inputs)
        given: Inputs = {name: one.astype(logprobs.dtype) for name, one in inputs.items() if name != "target_tokens"}
        settings = {**self.defaults, **self._checked(config or {}), **self._thresholds(given)}
        # An infinite ratio makes the loss infinite; whoever trains is told so, not warned.
        with np.errstate(over="ignore", invalid="ignore"):
            of_position, derivative = self.formula(logprobs, given, settings)
        loss = float(of_position.sum(dtype=np.float64))
        return loss, derivative, {"logprobs": logprobs, "elementwise_loss": of_position}, {"loss:sum": loss}

    def _thresholds(self, inputs: Inputs) -> Settings:
        return {name: inputs[name] for name in _CLIPS if name in inputs and name in self.defaults}

    def _checked(self, config: Config) -> Config:
        if strange := sorted(set(config) - set(self.defaults)):
            known = ", ".join(self.defaults) or "nothing"
            raise ValueError(f"{self.name} has no setting {', '.join(strange)}; it has {known}")
        return config

    def _check(self, logprobs: Floats, inputs: Mapping[str, NDArray[np.number]]) -> None:
        if missing := sorted(set(self.needs) - set(inputs)):
            raise ValueError(f"{self.name} needs {' and '.join(self.needs)}; {', '.join(missing)} is missing")
        usable = {"target_tokens", *self.needs, *(name for name in _CLIPS if name in self.defaults)}
        if strange := sorted(set(inputs) - usable):
            raise ValueError(f"{self.name} does not use {', '.join(strange)}")
        for name in set(inputs) - {"target_tokens"}:
            if inputs[name].shape != logprobs.shape:
                raise ValueError(f"{name} has shape {inputs[name].shape}, the targets have {logprobs.shape}")


def find_loss(name: str) -> Loss:
    """The loss of that name; ValueError lists those that there are."""
    if name not in LOSSES:
        raise ValueError(f"there is no loss {name!r} here; wanted one of {', '.join(LOSSES)}")
    return LOSSES[name]


def _cross_entropy(logprobs: Floats, inputs: Inputs, _: Settings) -> tuple[Floats, Floats]:
    weights = inputs["weights"]
    # A target that is impossible and does not count is no loss; 0 * inf would be NaN.
    return np.where(weights == 0, 0, -weights * logprobs), -weights


def _importance_sampling(logprobs: Floats, inputs: Inputs, _: Settings) -> tuple[Floats, Floats]:
    loss = -_ratio(logprobs, inputs) * inputs["advantages"]
    return loss, loss


def _ppo(logprobs: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    free = _ratio(logprobs, inputs) * inputs["advantages"]
    clipped = _clipped(logprobs, inputs, settings) * inputs["advantages"]
    return -np.minimum(free, clipped), np.where(free <= clipped, -free, 0)


def _cispo(logprobs: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    derivative = -_clipped(logprobs, inputs, settings) * inputs["advantages"]
    return derivative * logprobs, derivative


def _dro(logprobs: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    moved, advantages = logprobs - inputs["logprobs"], inputs["advantages"]
    loss = 0.5 * settings["beta"] * moved * moved - advantages * logprobs
    return loss, settings["beta"] * moved - advantages


def _ratio(logprobs: Floats, inputs: Inputs) -> Floats:
    ratio: Floats = np.exp(logprobs - inputs["logprobs"])
    return ratio


def _clipped(logprobs: Floats, inputs: Inputs, settings: Settings) -> Floats:
    low, high = (settings[name] for name in _CLIPS)
    return np.clip(_ratio(logprobs, inputs), low, high)


_OF_A_POLICY = ("logprobs", "advantages")
LOSSES = {
    loss.name: loss
    for loss in (
        Loss("cross_entropy", ("weights",), {}, _cross_entropy),
        Loss("importance_sampling", _OF_A_POLICY, {}, _importance_sampling),
        Loss("ppo", _OF_A_POLICY, dict(zip(_CLIPS, (0.8, 1.2), strict=True)), _ppo),
        Loss("cispo", _OF_A_POLICY, dict(zip(_CLIPS, (0.0, 4.0), strict=True)), _cispo),
        Loss("dro", _OF_A_POLICY, {"beta": 0.05}, _dro),
    )
}
