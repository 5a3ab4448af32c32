"""Losses over the log-probabilities of targets, with their gradients: Tinker's names, inputs and formulas.

All are sums over positions, with p = exp(logprobs), q = exp(inputs["logprobs"]) and A = inputs["advantages"]:

    cross_entropy        -sum(weights * log p)
    importance_sampling  -sum(p / q * A)
    ppo                  -sum(min(p / q * A, clip(p / q, low, high) * A))        low 0.8, high 1.2
    cispo                -sum(clip(p / q, low, high) * A * log p), clip constant  low 0.0, high 4.0
    dro                  -sum(A * log p - beta / 2 * (log p - log q)^2)           beta 0.05
    gspo                 -sum(min(s * A, clip(s, low, high) * A))                 low and high must be given

In gspo, s is one ratio for a whole sequence, exp of the mean of log p - log q where `sequence_ratio_mask` is not 0; each
position has its value, and the gradient of its own log p (GSPO-token). Inputs have one number per position, in arrays of
the shape of `logprobs`. `clip_low_threshold` and `clip_high_threshold` may be given in the configuration, or as inputs,
one per position. Schulman et al. 2017 (ppo); MiniMax 2025 (cispo); Richemond et al. 2024 (dro); Zheng et al. 2025 (gspo);
https://tinker-docs.thinkingmachines.ai/tinker/losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.config import Floats
from pytest_crucible.quick_dataclass import dataclass

Inputs: TypeAlias = Mapping[str, Floats]
Settings: TypeAlias = Mapping[str, float | Floats]
Config: TypeAlias = Mapping[str, float]
LossResult: TypeAlias = tuple[float, Floats, dict[str, Floats], dict[str, float]]
"""Sum of the loss, its derivative by each log-probability, outputs by position, metrics ("name:reduction")."""

_CLIPS = ("clip_low_threshold", "clip_high_threshold")


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss: its required inputs, its settings with their defaults, and its formula."""

    name: str
    needs: tuple[str, ...]
    defaults: Mapping[str, float]
    formula: Callable[[Floats, Inputs, Settings], tuple[Floats, Floats]]
    required: tuple[str, ...] = ()
    """Settings without a default."""
    of_sequences: bool = False
    """True when the formula is one of whole sequences, not of each position by itself."""
    curvature: Callable[[Floats, Settings], Floats] | None = None
    """Returns the derivative of each derivative by its own log-probability; None if the derivatives are constant."""
    counted_by: tuple[str, ...] = ()
    """Inputs that are all 0 where a position adds nothing to the loss; empty if each position does."""

    def __call__(
        self,
        logprobs: Floats,
        inputs: Mapping[str, NDArray[np.number]],
        config: Config | None = None,
        lengths: Sequence[int] | None = None,
    ) -> LossResult:
        """Return the loss and its derivative; `lengths` separates sequences that follow each other.

        Missing, unknown or misshapen inputs and settings raise ValueError.

        >>> loss, derivative, outputs, metrics = LOSSES["cross_entropy"](np.log([0.5, 0.25]), {"weights": np.ones(2)})
        >>> round(loss, 4), derivative.tolist(), metrics == {"loss:sum": loss}
        (2.0794, [-1.0, -1.0], True)
        """
        self.check(logprobs.shape, inputs)
        converted: Inputs = {
            name: values.astype(logprobs.dtype) for name, values in inputs.items() if name != "target_tokens"
        }
        settings = self._settings(config or {}, converted)
        # An infinite ratio makes the loss infinite, which raises an error later: numpy's warning would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"):
            of_position, derivative = self._evaluate(logprobs, converted, settings, lengths)
        # Thousands of float32 terms would lose digits in a float32 sum.
        loss = float(of_position.sum(dtype=np.float64))
        return loss, derivative, {"logprobs": logprobs, "elementwise_loss": of_position}, {"loss:sum": loss}

    def find_counted(self, inputs: Mapping[str, NDArray[np.number]], n: int) -> NDArray[np.bool_]:
        """Return which of n positions add to the loss, given inputs that `check` has accepted.

        >>> LOSSES["cross_entropy"].find_counted({"weights": np.array([0.0, 2.0])}, 2).tolist()
        [False, True]
        """
        if not self.counted_by:
            return np.ones(n, bool)
        columns = [inputs[name].reshape(n, -1) for name in self.counted_by]
        return np.asarray(np.hstack(columns).any(axis=1), bool)

    def curve(self, derivative: Floats, config: Config) -> Floats:
        """Return the derivative of each derivative by its own log-probability. Raises ValueError for a loss without one."""
        if self.curvature is None:
            names = ", ".join(name for name, loss in LOSSES.items() if loss.curvature is not None)
            raise ValueError(
                f"{self.name} has no curvature: its derivatives by log-probabilities are constant, or of a whole sequence; "
                f"gradient penalties need one of {names}"
            )
        return self.curvature(derivative, {**self.defaults, **config})

    @property
    def _setting_names(self) -> tuple[str, ...]:
        return (*self.defaults, *self.required)

    def _settings(self, config: Config, inputs: Inputs) -> Settings:
        if unknown := sorted(set(config) - set(self._setting_names)):
            names = ", ".join(self._setting_names) or "nothing"
            raise ValueError(f"{self.name} has no setting {', '.join(unknown)}; it has {names}")
        thresholds = {name: inputs[name] for name in _CLIPS if name in inputs and name in self._setting_names}
        settings: dict[str, float | Floats] = {**self.defaults, **config, **thresholds}
        if missing := [name for name in self.required if name not in settings]:
            raise ValueError(f"{self.name} needs values for {' and '.join(missing)}")
        return settings

    def _evaluate(
        self, logprobs: Floats, inputs: Inputs, settings: Settings, lengths: Sequence[int] | None
    ) -> tuple[Floats, Floats]:
        if not self.of_sequences or lengths is None:
            return self.formula(logprobs, inputs, settings)
        ends = np.cumsum(lengths)
        places = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        parts = [self.formula(logprobs[at], _part(inputs, at), _part(settings, at)) for at in places]
        of_position, derivative = (np.concatenate(column) for column in zip(*parts, strict=True))
        return of_position, derivative

    def check(self, shape: tuple[int, ...], inputs: Mapping[str, NDArray[np.number]]) -> None:
        """Raise ValueError for inputs that are missing, unknown, or not of the shape of the targets."""
        if missing := sorted(set(self.needs) - set(inputs)):
            raise ValueError(f"{self.name} needs {' and '.join(self.needs)}; {', '.join(missing)} is missing")
        usable = {"target_tokens", *self.needs, *(name for name in _CLIPS if name in self._setting_names)}
        if unused := sorted(set(inputs) - usable):
            raise ValueError(f"{self.name} does not use {', '.join(unused)}")
        for name in set(inputs) - {"target_tokens"}:
            if inputs[name].shape != shape:
                raise ValueError(f"{name} has shape {inputs[name].shape}, the targets have {shape}")


def find_loss(name: str) -> Loss:
    """Return the loss of this name; ValueError lists the known names."""
    if name not in LOSSES:
        why = f"loss {name!r} {ELSEWHERE[name]}" if name in ELSEWHERE else f"unknown loss {name!r}"
        raise ValueError(f"{why}; use one of {', '.join(LOSSES)}")
    return LOSSES[name]


def _part(mapping: Mapping[str, Any], at: slice) -> dict[str, Any]:
    """Return the part of one sequence; numbers apply to all sequences."""
    return {name: values[at] if isinstance(values, np.ndarray) else values for name, values in mapping.items()}


def _cross_entropy(logprobs: Floats, inputs: Inputs, _: Settings) -> tuple[Floats, Floats]:
    weights = inputs["weights"]
    # An impossible target that does not count adds nothing; 0 * inf would be NaN.
    return np.where(weights == 0, 0, -weights * logprobs), -weights


def _importance_sampling(logprobs: Floats, inputs: Inputs, _: Settings) -> tuple[Floats, Floats]:
    loss = -_ratio(logprobs, inputs) * inputs["advantages"]
    return loss, loss


def _ppo(logprobs: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    return _clip_objective(_ratio(logprobs, inputs), inputs, settings)


def _cispo(logprobs: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    low, high = (settings[name] for name in _CLIPS)
    derivative = -np.clip(_ratio(logprobs, inputs), low, high) * inputs["advantages"]
    return derivative * logprobs, derivative


def _dro(logprobs: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    log_ratio, advantages = logprobs - inputs["logprobs"], inputs["advantages"]
    loss = 0.5 * settings["beta"] * log_ratio * log_ratio - advantages * logprobs
    return loss, settings["beta"] * log_ratio - advantages


def _gspo(logprobs: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    is_counted = inputs["sequence_ratio_mask"] != 0
    if not is_counted.any():
        raise ValueError("sequence_ratio_mask marks no token of a sequence: mark at least 1")
    return _clip_objective(np.exp((logprobs - inputs["logprobs"])[is_counted].mean()), inputs, settings)


def _ratio(logprobs: Floats, inputs: Inputs) -> Floats:
    ratio: Floats = np.exp(logprobs - inputs["logprobs"])
    return ratio


def _clip_objective(ratio: Floats, inputs: Inputs, settings: Settings) -> tuple[Floats, Floats]:
    low, high = (settings[name] for name in _CLIPS)
    unclipped = ratio * inputs["advantages"]
    clipped = np.clip(ratio, low, high) * inputs["advantages"]
    return -np.minimum(unclipped, clipped), np.where(unclipped <= clipped, -unclipped, 0)


def _exponential(derivative: Floats, _: Settings) -> Floats:
    """Return the derivative of a multiple of the ratio p / q, which is that multiple itself."""
    return derivative


def _quadratic(derivative: Floats, settings: Settings) -> Floats:
    return np.full_like(derivative, settings["beta"])


def _clips(low: float, high: float) -> dict[str, float]:
    return dict(zip(_CLIPS, (low, high), strict=True))


_POLICY, _REWARDED = ("logprobs", "advantages"), ("advantages",)
LOSSES = {
    loss.name: loss
    for loss in (
        Loss("cross_entropy", ("weights",), {}, _cross_entropy, counted_by=("weights",)),
        Loss("importance_sampling", _POLICY, {}, _importance_sampling, curvature=_exponential, counted_by=_REWARDED),
        Loss("ppo", _POLICY, _clips(0.8, 1.2), _ppo, curvature=_exponential, counted_by=_REWARDED),
        Loss("cispo", _POLICY, _clips(0.0, 4.0), _cispo, counted_by=_REWARDED),
        # Its penalty counts where the advantage is 0, too.
        Loss("dro", _POLICY, {"beta": 0.05}, _dro, curvature=_quadratic),
        Loss(
            *("gspo", (*_POLICY, "sequence_ratio_mask"), {}, _gspo),
            required=_CLIPS,
            of_sequences=True,
            counted_by=(*_REWARDED, "sequence_ratio_mask"),
        ),
    )
}
# Tinker's losses that this model cannot offer, and why.
UNPUBLISHED = ("stable_reinforce",)
ELSEWHERE = {
    "stable_reinforce": "needs what only the hosted service records while it samples (record_stability_info), "
    "and its formula is not published (crucible tinker server --stand-in stable_reinforce=importance_sampling computes another)",
    "custom": "was traced for the hosted service: forward_backward_custom with a function works here as well",
}


class NotFinite(ValueError):
    """A loss, gradients or weights that are not finite: nothing can be computed from them."""


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

        Raises NotFinite for gradients that are not finite, and for a step to values that are not; nothing has changed then.
        """
        norm = math.sqrt(sum(float(np.vdot(gradient, gradient)) for gradient in gradients.values()))
        if not math.isfinite(norm):
            raise NotFinite("the gradients are not finite")
        scale = params.grad_clip_norm / norm if 0 < params.grad_clip_norm < norm else 1.0
        moved = Adam(_copy(self.first), _copy(self.second), self.steps + 1)
        new = {name: values[name].copy() for name in gradients}
        # What overflows is found below.
        with np.errstate(over="ignore", invalid="ignore"):
            for name, gradient in gradients.items():
                moved._move(name, new[name], gradient if scale == 1.0 else gradient * scale, params)
        if not all(np.isfinite(value).all() for value in new.values()):
            raise NotFinite("the step made weights that are not finite")
        for name, value in new.items():
            values[name][...] = value
        self.first, self.second, self.steps = moved.first, moved.second, moved.steps
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


def _copy(values: Mapping[str, Floats]) -> dict[str, Floats]:
    return {name: value.copy() for name, value in values.items()}
