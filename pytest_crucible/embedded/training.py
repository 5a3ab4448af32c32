"""Gradients of an adapter over training data: data are put into batches, and each is run forward, judged and run back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.embedded.adam import NotFinite
from pytest_crucible.embedded.batches import Datum, padded
from pytest_crucible.embedded.lora import Adapter, AdapterGradients
from pytest_crucible.embedded.losses import Config, Loss
from pytest_crucible.embedded.model import Folded, backward, forward, predict, predict_backward
from pytest_crucible.embedded.shape import Floats, Shape, Weights

POSITIONS = 4096
"""Padded positions that are computed together at most: what bounds the memory. Losses are sums, so cutting is exact."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a forward and backward pass over data gave: outputs and metrics as Tinker has them, and the gradients."""

    loss: float
    outputs: list[dict[str, Floats]]
    metrics: dict[str, float]
    gradients: Weights


def check_data(data: Sequence[Datum], shape: Shape) -> None:
    """Raise ValueError for what cannot be trained on, and say in which datum it is."""
    if not data:
        raise ValueError("there is no datum to train on")
    for at, datum in enumerate(data):
        try:
            _check_datum(datum, shape)
        except ValueError as error:
            raise ValueError(f"datum {at}: {error}") from None
    if len(columns := {datum.inputs["target_tokens"].shape[1:] for datum in data}) > 1:
        raise ValueError(f"target_tokens have {len(columns)} different shapes beyond their first axis, wanted one")


def train(
    adapter: Adapter,
    weights: Weights,
    folded: Folded,
    shape: Shape,
    data: Sequence[Datum],
    loss: Loss,
    config: Config,
    *,
    backwards: bool = True,
) -> Trained:
    """Loss of checked data under an adapter, and with `backwards` its gradients.

    `folded` are the weights with the adapter merged, `weights` those of the base. Raises ValueError when the loss is not
    finite.
    """
    outputs: list[dict[str, Floats]] = [{} for _ in data]
    metrics: dict[str, float] = {}
    gradients: Weights = {}
    for places in _batches(data):
        collect = AdapterGradients(adapter, weights)
        found = _train_batch(folded, shape, [data[at] for at in places], loss, config, collect if backwards else None)
        for at, output in zip(places, found[0], strict=True):
            outputs[at] = output
        for name, value in found[1].items():
            metrics[name] = metrics.get(name, 0.0) + value
        add_gradients(gradients, collect.gradients)
    return Trained(metrics["loss:sum"], outputs, metrics, gradients)


def add_gradients(sums: Weights, more: Weights) -> None:
    """Add gradients to others, of which there may be none yet."""
    for name, value in more.items():
        sums[name] = sums[name] + value if name in sums else value


def _train_batch(
    folded: Folded, shape: Shape, data: list[Datum], loss: Loss, config: Config, collect: AdapterGradients | None
) -> tuple[list[dict[str, Floats]], dict[str, float]]:
    tokens = padded([datum.tokens for datum in data], 0).astype(np.int64)
    lengths = [len(datum.tokens) for datum in data]
    rows = np.concatenate([at * tokens.shape[1] + np.arange(length) for at, length in enumerate(lengths)])
    trace = forward(folded, shape, tokens)
    predicted = predict(folded, trace.states, rows, _joined(data, "target_tokens").astype(np.int64))
    inputs = {name: _joined(data, name) for name in data[0].inputs if name != "target_tokens"}
    total, d_logprobs, outputs, metrics = loss(predicted.logprobs, inputs, config, lengths)
    if not np.isfinite(total):
        raise NotFinite(f"the {loss.name} loss is {total}")
    if collect is not None:
        d_logprobs = np.asarray(d_logprobs, trace.states.dtype)
        backward(folded, shape, trace, predict_backward(folded, trace, predicted, d_logprobs, collect), collect)
    ends = np.cumsum(lengths)[:-1]
    parts = {name: np.split(np.asarray(one, np.float32), ends) for name, one in outputs.items()}
    return [{name: part[at] for name, part in parts.items()} for at in range(len(data))], metrics


def _joined(data: list[Datum], name: str) -> NDArray[np.number]:
    if lacking := [datum for datum in data if name not in datum.inputs]:
        raise ValueError(f"{name} is missing in {len(lacking)} of {len(data)} data")
    return np.concatenate([datum.inputs[name] for datum in data])


def _batches(data: Sequence[Datum]) -> Iterator[list[int]]:
    """Places of data of similar lengths, as many as fit together."""
    batch: list[int] = []
    for at in sorted(range(len(data)), key=lambda one: -len(data[one].tokens)):
        if batch and (len(batch) + 1) * len(data[batch[0]].tokens) > POSITIONS:
            yield batch
            batch = []
        batch.append(at)
    yield batch


def _check_datum(datum: Datum, shape: Shape) -> None:
    length = len(datum.tokens)
    if not 1 <= length <= shape.context:
        raise ValueError(f"it has {length} tokens, wanted 1 to {shape.context} (the context)")
    if "target_tokens" not in datum.inputs:
        raise ValueError("target_tokens are missing")
    for name, tokens in (("tokens", np.asarray(datum.tokens)), ("target_tokens", datum.inputs["target_tokens"])):
        if not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(f"{name} must be whole numbers, not {tokens.dtype}")
        if tokens.min() < 0 or tokens.max() >= shape.vocabulary:
            raise ValueError(f"{name} must be 0 to {shape.vocabulary - 1}, not {tokens.min()} to {tokens.max()}")
    for name, values in datum.inputs.items():
        if len(values) != length:
            raise ValueError(f"{name} has {len(values)} entries for {length} tokens")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} is not finite everywhere")
