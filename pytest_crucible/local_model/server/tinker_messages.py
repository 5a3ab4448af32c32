"""Tinker's protobuf messages (package `tinker_public`), to and from records of arrays.

Read: ForwardBackwardRequest. Written: ForwardBackwardOutput and SampleResponse. Arrays travel as little-endian bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_crucible.local_model.server import protobuf
from pytest_crucible.local_model.server.protobuf import Fields

_STOP_REASONS = {"stop": 0, "length": 1}
# Fillers of an empty cell of a top-k table.
_NO_TOKEN, _NO_LOGPROB = 0, -99999.0


@dataclass(frozen=True, slots=True)
class ForwardBackwardRequest:
    """A request to compute a loss and, unless `forward_only`, its gradient."""

    model_id: str
    seq_id: int
    data: Sequence[tuple[list[int], dict[str, Array]]]
    """The tokens of each datum's model input, and the arrays that its loss needs."""
    loss: str
    loss_config: Mapping[str, float | str]
    forward_only: bool


@dataclass(frozen=True, slots=True)
class TopLogprobs:
    """Best tokens at each position, the most likely first; both (positions, k). A position with NaN has none."""

    tokens: NDArray[np.integer]
    logprobs: NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class SampledSequence:
    """A sampled continuation."""

    tokens: Sequence[int]
    logprobs: Sequence[float]
    stop_reason: str
    top: TopLogprobs | None = None


@dataclass(frozen=True, slots=True)
class SampleResponse:
    """The response to a sample request; prompt log-probabilities that were not computed are NaN."""

    sequences: Sequence[SampledSequence]
    prompt_logprobs: NDArray[np.floating] | None = None
    top_prompt: TopLogprobs | None = None
    target_prompt_logprobs: bytes | None = None
    """A tensor that is already encoded, in the layout of the request's."""
    alternatives: TopLogprobs | None = None


def read_forward_backward(message: bytes) -> ForwardBackwardRequest:
    """Read a ForwardBackwardRequest. Raises ValueError for an invalid message."""
    try:
        return _read_forward_backward(protobuf.read_fields(message))
    except ValueError as error:
        raise ValueError(f"the body is not a ForwardBackwardRequest: {error}") from None


def write_forward_backward(outputs: Sequence[Mapping[str, NDArray[np.number]]], metrics: Mapping[str, float]) -> bytes:
    """Write a ForwardBackwardOutput: the arrays of each datum, and metrics named `name:reduction`."""
    names = list(outputs[0]) if outputs else []
    columns = [
        protobuf.data(
            2, protobuf.text(1, name) + protobuf.data(2, _write_batched([output[name] for output in outputs]))
        )
        for name in names
    ]
    record = protobuf.text(1, "ArrayRecord") + b"".join(columns) + protobuf.integer(3, len(outputs))
    numbers = [protobuf.data(3, protobuf.text(1, name) + protobuf.double(2, value)) for name, value in metrics.items()]
    return protobuf.text(1, "ArrayRecord") + protobuf.data(2, record) + b"".join(numbers)


def write_sample_response(response: SampleResponse) -> bytes:
    """Write a SampleResponse."""
    parts = [protobuf.data(1, _write_sequence(sequence)) for sequence in response.sequences]
    if response.prompt_logprobs is not None:
        parts.append(protobuf.data(2, _floats(response.prompt_logprobs)))
    if response.top_prompt is not None:
        parts.append(protobuf.data(3, _write_top(response.top_prompt)))
    if response.target_prompt_logprobs is not None:
        parts.append(protobuf.data(5, response.target_prompt_logprobs))
    if response.alternatives is not None:
        tokens, logprobs = write_tensor(response.alternatives.tokens), write_tensor(response.alternatives.logprobs)
        parts.append(protobuf.data(6, protobuf.data(1, tokens) + protobuf.data(2, logprobs)))
    return b"".join(parts)


def _read_forward_backward(fields: Fields) -> ForwardBackwardRequest:
    config: dict[str, float | str] = {
        name: protobuf.last_double(entry, 2) for name, entry in protobuf.read_mapping(fields, 5)
    }
    for name, entry in protobuf.read_mapping(fields, 7):
        value = protobuf.read_fields(protobuf.last_bytes(entry, 2))
        config[name] = protobuf.last_text(value, 2) if 2 in value else protobuf.last_double(value, 1)
    return ForwardBackwardRequest(
        model_id=protobuf.last_text(fields, 1),
        seq_id=protobuf.last_int(fields, 2, bits=32),
        data=[_read_datum(protobuf.read_fields(datum)) for datum in protobuf.all_bytes(fields, 3)],
        loss=protobuf.last_text(fields, 4),
        loss_config=config,
        forward_only=bool(protobuf.last_int(fields, 6)),
    )


def _read_datum(fields: Fields) -> tuple[list[int], dict[str, Array]]:
    tokens: list[int] = []
    for chunk in protobuf.all_bytes(fields, 1):
        of_chunk = protobuf.read_fields(chunk)
        if set(of_chunk) != {1}:
            raise ValueError("a chunk of a model input is not text; this model reads only text")
        encoded = protobuf.read_fields(protobuf.last_bytes(of_chunk, 1))
        tokens += read_array(protobuf.last_bytes(encoded, 1), np.dtype("<i4")).tolist()
    inputs = {
        name: read_tensor(protobuf.read_fields(protobuf.last_bytes(entry, 2)))
        for name, entry in protobuf.read_mapping(fields, 2)
    }
    return tokens, inputs


def _write_batched(arrays: Sequence[NDArray[np.number]]) -> bytes:
    contents = [to_bytes(array) for array in arrays]
    offsets = np.cumsum([0, *map(len, contents)], dtype="<i8").tobytes()
    trailing = protobuf.packed_integers(4, arrays[0].shape[1:])
    head = protobuf.data(1, b"".join(contents)) + protobuf.data(2, offsets)
    return head + protobuf.integer(3, type_code(arrays[0])) + trailing


def _write_sequence(sequence: SampledSequence) -> bytes:
    tokens = np.asarray(sequence.tokens, "<i4").tobytes()
    top = protobuf.data(4, _write_top(sequence.top)) if sequence.top is not None else b""
    reason = protobuf.integer(1, _STOP_REASONS[sequence.stop_reason])
    return reason + protobuf.data(2, tokens) + protobuf.data(3, _floats(sequence.logprobs)) + top


def _write_top(top: TopLogprobs) -> bytes:
    empty = np.isnan(top.logprobs)
    ids = np.where(empty, _NO_TOKEN, top.tokens).astype("<i4")
    logprobs = np.where(empty, _NO_LOGPROB, top.logprobs)
    length, k = ids.shape
    return (
        protobuf.data(1, ids.tobytes())
        + protobuf.data(2, _floats(logprobs))
        + protobuf.integer(3, k)
        + protobuf.integer(4, length)
    )


def _floats(values: ArrayLike) -> bytes:
    return np.asarray(values, "<f4").tobytes()


Array: TypeAlias = NDArray[np.float32] | NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.number]
Integers: TypeAlias = NDArray[np.integer]

_FLOAT32, _INT64 = 1, 2
_DTYPES: dict[int, np.dtype[np.number]] = {_FLOAT32: np.dtype("<f4"), _INT64: np.dtype("<i8"), 3: np.dtype("<i4")}
# 256 MiB of float32: a shape is a few bytes and could ask for any amount of memory.
_MAX_CELLS = 1 << 26


def read_tensor(fields: Fields) -> Array:
    """Read a Tensor: float32 or int64; a sparse one (compressed rows) is filled with zeros."""
    code = protobuf.last_int(fields, 3)
    if code not in _DTYPES:
        raise ValueError(f"a tensor has type {code}; expected float32 (1), int64 (2) or int32 (3)")
    shape = protobuf.all_ints(fields, 4)
    if 2 in fields:
        array = _read_sparse(protobuf.read_fields(protobuf.last_bytes(fields, 2)), _DTYPES[code], shape)
    else:
        array = read_array(protobuf.last_bytes(fields, 1), _DTYPES[code])
        array = array.reshape(shape) if shape else array
    return array.astype(np.float32) if code == _FLOAT32 else array.astype(np.int64)


def write_tensor(array: Numbers) -> bytes:
    """Write a dense Tensor."""
    code = type_code(array)
    return protobuf.data(1, to_bytes(array)) + protobuf.integer(3, code) + protobuf.packed_integers(4, array.shape)


def write_sparse(values: Numbers, starts: Numbers, columns: Numbers, shape: Sequence[int]) -> bytes:
    """Write a sparse Tensor: compressed rows."""
    places = [protobuf.data(number, to_bytes(array)) for number, array in ((2, starts), (3, columns))]
    sparse = protobuf.data(1, to_bytes(values)) + b"".join(places)
    return protobuf.data(2, sparse) + protobuf.integer(3, type_code(values)) + protobuf.packed_integers(4, shape)


def _read_sparse(fields: Fields, dtype: np.dtype[np.number], shape: Sequence[int]) -> Numbers:
    values = read_array(protobuf.last_bytes(fields, 1), dtype)
    starts, columns = (
        np.frombuffer(_check_size(protobuf.last_bytes(fields, number), 8), np.int64) for number in (2, 3)
    )
    return fill_sparse(values, starts, columns, shape, fill=0)


def fill_sparse(values: Numbers, starts: Integers, columns: Integers, shape: Sequence[int], *, fill: int) -> Numbers:
    """Fill compressed rows. Raises ValueError if their parts do not fit together.

    >>> fill_sparse(np.array([7, 8]), np.array([0, 1, 2]), np.array([1, 0]), (2, 2), fill=-1).tolist()
    [[-1, 7], [8, -1]]
    """
    if len(shape) != 2 or min(shape) < 0 or shape[0] * shape[1] > _MAX_CELLS:
        raise ValueError(
            f"a sparse tensor has shape {list(shape)}; expected two dimensions of at most {_MAX_CELLS} cells in all"
        )
    # Checked before use: an index out of range would write into other rows.
    counts = starts[1:] - starts[:-1]
    fits = len(starts) == shape[0] + 1 and starts[0] == 0 and bool((counts >= 0).all()) and starts[-1] == len(values)
    if not fits or len(columns) != len(values) or (len(columns) and not 0 <= columns.min() <= columns.max() < shape[1]):
        raise ValueError("the parts of a sparse tensor do not fit together")
    dense = np.full(shape, fill, values.dtype)
    dense[np.repeat(np.arange(shape[0]), counts), columns] = values
    return dense


def read_array(content: memoryview, dtype: np.dtype[np.number]) -> Numbers:
    """Read bytes as a flat array. Raises ValueError unless they are a whole number of values."""
    return np.frombuffer(_check_size(content, dtype.itemsize), dtype)


def type_code(array: Numbers) -> int:
    """Return the type's number in protobuf."""
    return _FLOAT32 if array.dtype.kind == "f" else _INT64


def to_bytes(array: Numbers) -> bytes:
    """Return little-endian bytes."""
    return array.astype(_DTYPES[type_code(array)], copy=False).tobytes()


def _check_size(content: memoryview, size: int) -> memoryview:
    if len(content) % size:
        raise ValueError(f"{len(content)} bytes are not a whole number of values of {size} bytes")
    return content
