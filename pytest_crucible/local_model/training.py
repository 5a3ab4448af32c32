"""Gradients of an adapter over training data, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.adam import NotFinite
from pytest_crucible.local_model.batches import Datum, pad_rows
from pytest_crucible.local_model.config import Floats, Shape, Weights
from pytest_crucible.local_model.lora import Adapter, AdapterGradients
from pytest_crucible.local_model.losses import Config, Loss
from pytest_crucible.local_model.model import Folded, backward, forward, predict, predict_backward

# Padded positions computed together: few, so that they stay in the processor's cache and rows of one length come together.
# 512 take a quarter less time than 4,096 (`python -m benchmarks.local_model`). Losses are sums, so splitting is exact.
POSITIONS = 512


@dataclass(frozen=True, slots=True)
class GradientResult:
    """The result of a forward and backward pass over data: Tinker's outputs and metrics, and the gradients."""

    loss: float
    outputs: list[dict[str, Floats]]
    metrics: dict[str, float]
    gradients: Weights


def check_data(data: Sequence[Datum], shape: Shape) -> None:
    """Raise ValueError, naming the datum, for data that cannot be trained on."""
    if not data:
        raise ValueError("no data to train on")
    for index, datum in enumerate(data):
        try:
            _check_datum(datum, shape)
        except ValueError as error:
            raise ValueError(f"datum {index}: {error}") from None
    if len(columns := {datum.inputs["target_tokens"].shape[1:] for datum in data}) > 1:
        raise ValueError(f"target_tokens have {len(columns)} different shapes beyond their first axis: use one shape")


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
) -> GradientResult:
    """Return the loss of checked data under an adapter, and with `backwards` its gradients.

    `folded` are the weights with the adapter merged, `weights` those of the base. Raises ValueError when the loss is
    not finite.
    """
    outputs: list[dict[str, Floats]] = [{} for _ in data]
    metrics: dict[str, float] = {}
    gradients: Weights = {}
    for indices in _batches(data):
        collect = AdapterGradients(adapter, weights)
        batch_result = _train_batch(
            folded, shape, [data[index] for index in indices], loss, config, collect if backwards else None
        )
        for index, output in zip(indices, batch_result[0], strict=True):
            outputs[index] = output
        for name, value in batch_result[1].items():
            metrics[name] = metrics.get(name, 0.0) + value
        add_gradients(gradients, collect.gradients)
    return GradientResult(metrics["loss:sum"], outputs, metrics, gradients)


def add_gradients(sums: Weights, more: Weights) -> None:
    """Add gradients to `sums`, which may not have them yet."""
    for name, value in more.items():
        sums[name] = sums[name] + value if name in sums else value


def _train_batch(
    folded: Folded, shape: Shape, data: list[Datum], loss: Loss, config: Config, collect: AdapterGradients | None
) -> tuple[list[dict[str, Floats]], dict[str, float]]:
    tokens = pad_rows([datum.tokens for datum in data], 0).astype(np.int64)
    lengths = [len(datum.tokens) for datum in data]
    rows = np.concatenate([at * tokens.shape[1] + np.arange(length) for at, length in enumerate(lengths)])
    trace = forward(folded, shape, tokens)
    predicted = predict(folded, trace.states, rows, _concatenate(data, "target_tokens").astype(np.int64))
    inputs = {name: _concatenate(data, name) for name in data[0].inputs if name != "target_tokens"}
    total, d_logprobs, outputs, metrics = loss(predicted.logprobs, inputs, config, lengths)
    if not np.isfinite(total):
        raise NotFinite(f"the {loss.name} loss is {total}")
    if collect is not None:
        # A float64 derivative would make every gradient float64.
        d_logprobs = np.asarray(d_logprobs, trace.states.dtype)
        d_states = predict_backward(folded, trace, predicted, d_logprobs, collect)
        backward(folded, shape, trace, d_states, collect, of_tokens=False)
    ends = np.cumsum(lengths)[:-1]
    parts = {name: np.split(np.asarray(values, np.float32), ends) for name, values in outputs.items()}
    return [{name: part[at] for name, part in parts.items()} for at in range(len(data))], metrics


def _concatenate(data: list[Datum], name: str) -> NDArray[np.number]:
    if without := [datum for datum in data if name not in datum.inputs]:
        raise ValueError(f"{name} is missing in {len(without)} of {len(data)} data")
    return np.concatenate([datum.inputs[name] for datum in data])


def _batches(data: Sequence[Datum]) -> Iterator[list[int]]:
    """Yield positions of data of similar lengths, as many as fit together."""
    batch: list[int] = []
    # Longest first: data of similar lengths waste the least padding.
    for at in sorted(range(len(data)), key=lambda index: -len(data[index].tokens)):
        if batch and (len(batch) + 1) * len(data[batch[0]].tokens) > POSITIONS:
            yield batch
            batch = []
        batch.append(at)
    yield batch


def _check_datum(datum: Datum, shape: Shape) -> None:
    length = len(datum.tokens)
    if not 1 <= length <= shape.context:
        raise ValueError(f"it has {length} tokens, expected 1 to {shape.context} (the context)")
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
