"""Gradients of an adapter over training data, batch by batch.

Matrix products are computed in one thread, so that the number of threads cannot change a result. A library that splits a product
over threads splits it elsewhere, and its last bits move; a sampled token can then fall on the other side of a border. At this
model's size more threads gain nothing in sampling. In training two threads compute two batches, each of them whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.checkpoints import Adapter, AdapterGradients
from pytest_crucible.local_model.config import Datum, Floats, Integers, Shape, Weights, pad_rows
from pytest_crucible.local_model.losses import Config, Loss, NotFinite
from pytest_crucible.local_model.model import (
    Folded,
    Trace,
    backward,
    forward,
    predict,
    predict_backward,
    states_elsewhere,
)
from pytest_crucible.quick_dataclass import dataclass

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

Switch: TypeAlias = tuple[Callable[[], int], Callable[[int], None]]

_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


@dataclass(slots=True)
class _Blocks:
    """The blocks of `one_thread` that are open, in all threads: the switch is the process's."""

    open: int = 0
    before: int = 1


_BLOCKS, _LOCK = _Blocks(), Lock()


@contextlib.contextmanager
def one_thread() -> Iterator[int]:
    """Compute in one thread within the block; yield how many threads numpy's matrix library had before.

    Does nothing, and yields 1, where the library has no such switch.
    """
    threads = switch()
    if threads is None:
        yield 1
        return
    with _LOCK:
        _BLOCKS.open += 1
        if _BLOCKS.open == 1:
            _BLOCKS.before = threads[0]()
            threads[1](1)
        before = _BLOCKS.before
    try:
        yield before
    finally:
        with _LOCK:
            _BLOCKS.open -= 1
            if not _BLOCKS.open:
                threads[1](before)


def compute_each(compute: Callable[[PartT], ResultT], parts: Sequence[PartT], threads: int) -> Iterator[ResultT]:
    """Yield the result of each part, in order; `threads` parts are computed at a time."""
    if min(threads, len(parts)) == 1:
        yield from map(compute, parts)
        return
    # New ones each time, which takes a tenth of a millisecond: a forked process would not have those of a pool.
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(compute, parts)


@cache
def switch() -> Switch | None:
    """Return the functions that read and set the number of threads of numpy's matrix library, or None."""
    module = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    try:
        # The lookup searches the libraries that the module needs, too.
        library = ctypes.CDLL(module.__file__)
    except OSError:
        return None
    for read, write in _NAMES:
        if hasattr(library, read) and hasattr(library, write):
            return getattr(library, read), getattr(library, write)
    return None


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
        raise ValueError("no data to train on: give at least one datum")
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
    outputs: bool = True,
    threads: int = 1,
) -> GradientResult:
    """Return the loss of checked data under an adapter, and with `backwards` its gradients.

    Batches are computed in this many threads, which change no bit of the result.
    Without `outputs` those of each position are empty, and positions that add nothing to the loss cost less.
    `folded` are the weights with the adapter merged, `weights` those of the base. Raises ValueError when the loss is
    not finite.
    """

    def train_batch(indices: list[int]) -> GradientResult:
        collect = AdapterGradients(adapter, weights)
        batch = [data[index] for index in indices]
        # Set here, because a thread does not inherit it.
        with np.errstate(over="ignore", invalid="ignore"):
            batch_pass = _train_batch(folded, shape, batch, loss, config, collect if backwards else None)
            of_batch = batch_pass.outputs(folded) if outputs else [{} for _ in batch]
        return GradientResult(batch_pass.metrics["loss:sum"], of_batch, batch_pass.metrics, collect.gradients)

    batches = list(_batches(data))
    return _add_results(batches, compute_each(train_batch, batches, threads))


def _add_results(batches: Sequence[list[int]], results: Iterable[GradientResult]) -> GradientResult:
    """Return the results of all batches as one, added in their order, whichever thread ended first."""
    of_data: dict[int, dict[str, Floats]] = {}
    metrics: dict[str, float] = {}
    gradients: Weights = {}
    for indices, result in zip(batches, results, strict=True):
        of_data |= zip(indices, result.outputs, strict=True)
        for name, value in result.metrics.items():
            metrics[name] = metrics.get(name, 0.0) + value
        add_gradients(gradients, result.gradients)
    return GradientResult(metrics["loss:sum"], [of_data[index] for index in sorted(of_data)], metrics, gradients)


def add_gradients(sums: Weights, more: Weights) -> None:
    """Add gradients to `sums`, which may not have them yet."""
    for name, value in more.items():
        sums[name] = sums[name] + value if name in sums else value


@dataclass(frozen=True, slots=True)
class _BatchPass:
    """The pass over one batch: outputs of the positions that count in the loss, and what gives those of the others."""

    trace: Trace
    lengths: list[int]
    places: Integers
    """Indexes of the positions that are not padding, among rows * positions."""
    targets: Integers
    is_counted: NDArray[np.bool_]
    of_counted: dict[str, Floats]
    metrics: dict[str, float]

    def outputs(self, folded: Folded) -> list[dict[str, Floats]]:
        whole = {name: self._spread(values) for name, values in self.of_counted.items()}
        others = np.flatnonzero(~self.is_counted)
        if others.size:
            states = states_elsewhere(folded, self.trace, self.places[others])
            whole["logprobs"][others] = predict(folded, states, self.targets[others]).logprobs
        ends = np.cumsum(self.lengths)[:-1]
        parts = {name: np.split(values, ends) for name, values in whole.items()}
        return [{name: part[at] for name, part in parts.items()} for at in range(len(self.lengths))]

    def _spread(self, values: Floats) -> Floats:
        """Return values of all positions, 0 where nothing counts."""
        spread = np.zeros(self.targets.shape, np.float32)
        spread[self.is_counted] = values
        return spread


def _train_batch(
    folded: Folded, shape: Shape, data: list[Datum], loss: Loss, config: Config, collect: AdapterGradients | None
) -> _BatchPass:
    tokens = pad_rows([datum.tokens for datum in data], 0).astype(np.int64)
    lengths = [len(datum.tokens) for datum in data]
    places = np.concatenate([at * tokens.shape[1] + np.arange(length) for at, length in enumerate(lengths)])
    targets = _concatenate(data, "target_tokens").astype(np.int64)
    inputs = {name: _concatenate(data, name) for name in data[0].inputs if name != "target_tokens"}
    loss.check(targets.shape, inputs)
    is_counted = loss.find_counted(inputs, len(targets))
    trace = forward(folded, shape, tokens, places[is_counted])
    predicted = predict(folded, trace.states, targets[is_counted])
    total, d_logprobs, outputs, metrics = loss(
        predicted.logprobs,
        {name: values[is_counted] for name, values in inputs.items()},
        config,
        [int(part.sum()) for part in np.split(is_counted, np.cumsum(lengths)[:-1])],
    )
    if not np.isfinite(total):
        raise NotFinite(f"the {loss.name} loss is {total}")
    if collect is not None:
        # A float64 derivative would make every gradient float64.
        d_logprobs = np.asarray(d_logprobs, trace.states.dtype)
        d_states = predict_backward(folded, predicted, d_logprobs, collect)
        backward(folded, shape, trace, d_states, collect, of_tokens=False)
    return _BatchPass(trace, lengths, places, targets, is_counted, outputs, metrics)


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
            raise ValueError(f"{name} is not finite everywhere: remove NaN and infinity")
