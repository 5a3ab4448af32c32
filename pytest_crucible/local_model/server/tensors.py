"""Tensors in Tinker's formats, protobuf and JSON: float32 or int64, dense or as compressed sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.server import protobuf
from pytest_crucible.local_model.server.protobuf import Fields

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
