"""Tinker's protobuf messages: forward_backward requests and outputs, sample responses, and tensors.

Of the wire format of Protocol Buffers, the part that these messages use: varints, doubles and bytes. A message is read as its
fields, `{number: [values]}`, and written as the concatenated bytes of its fields.
https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_crucible.local_model.config import Floats, Integers
from pytest_crucible.local_model.sampling import Sampled
from pytest_crucible.local_model.server.models import Answer, Scoring
from pytest_crucible.quick_dataclass import dataclass

Value: TypeAlias = int | bytes | memoryview
Fields: TypeAlias = Mapping[int, Sequence[Value]]
Array: TypeAlias = NDArray[np.float32] | NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.number]
NumberT = TypeVar("NumberT", bound=np.number)

PROTOBUF = "application/x-protobuf"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE = struct.Struct("<d")


def read_fields(message: bytes | memoryview) -> Fields:
    r"""Return all fields of a message. Raises ValueError for invalid bytes.

    >>> fields = read_fields(b"\x08\x96\x01\x12\x02hi")
    >>> last_int(fields, 1), last_text(fields, 2)
    (150, 'hi')
    """
    fields: dict[int, list[Value]] = {}
    for number, value in _fields(memoryview(message)):
        fields.setdefault(number, []).append(value)
    return fields


def last_int(fields: Fields, number: int, *, bits: int = 64) -> int:
    """Return the last value of a field of signed integers; 0, the format's default, if the field is absent."""
    value = fields.get(number, (0,))[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {number} must be a varint")
    return _to_signed(value, bits)


def last_bytes(fields: Fields, number: int) -> memoryview:
    """Return the last value of a field of bytes; empty if the field is absent."""
    return all_bytes(fields, number)[-1] if number in fields else memoryview(b"")


def all_bytes(fields: Fields, number: int) -> list[memoryview]:
    """Return all values of a repeated field of bytes, texts or messages."""
    values = fields.get(number, ())
    if not all(isinstance(value, memoryview) for value in values):
        raise ValueError(f"field {number} must be bytes")
    return [value for value in values if isinstance(value, memoryview)]


def last_text(fields: Fields, number: int) -> str:
    """Return the last value of a text field; empty if the field is absent. Raises ValueError for bytes that are not UTF-8."""
    return str(last_bytes(fields, number), "utf-8")


def last_double(fields: Fields, number: int) -> float:
    """Return a 64-bit number; 0.0 if absent."""
    value = fields.get(number, (b"\0" * 8,))[-1]
    if isinstance(value, int) or len(value) != 8:
        raise ValueError(f"field {number} must be a double")
    return float(_DOUBLE.unpack(value)[0])


def all_ints(fields: Fields, number: int) -> list[int]:
    """Return a repeated field of signed integers, packed or not."""
    integers: list[int] = []
    for value in fields.get(number, ()):
        if isinstance(value, int):
            integers.append(_to_signed(value))
            continue
        start = 0
        while start < len(value):
            packed, start = _varint(memoryview(value), start)
            integers.append(_to_signed(packed))
    return integers


def read_mapping(fields: Fields, number: int) -> Iterator[tuple[str, Fields]]:
    """Yield the keys of a map field, each with the fields of its entry (the value has number 2)."""
    for entry in all_bytes(fields, number):
        inner = read_fields(entry)
        yield last_text(inner, 1), inner


def integer(number: int, value: int) -> bytes:
    r"""Encode a varint field; nothing for 0, which is the default.

    >>> integer(1, 150)
    b'\x08\x96\x01'
    """
    return _tag(number, _VARINT) + varint(value) if value else b""


def double(number: int, value: float) -> bytes:
    return _tag(number, _FIXED64) + _DOUBLE.pack(value)


def data(number: int, value: bytes) -> bytes:
    """Encode bytes or an inner message; also if empty, so that it is present."""
    return b"".join((_tag(number, _BYTES), varint(len(value)), value))


def text(number: int, value: str) -> bytes:
    return data(number, value.encode("utf-8"))


def packed_integers(number: int, values: Sequence[int]) -> bytes:
    """Encode a repeated field of integers."""
    return data(number, b"".join(map(varint, values))) if values else b""


def varint(value: int) -> bytes:
    r"""Encode seven bits per byte, the lowest first; negative numbers as two's complement of 64 bits.

    >>> varint(300), len(varint(-1))
    (b'\xac\x02', 10)
    """
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    start, end = 0, len(message)
    while start < end:
        tag, start = _varint(message, start)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise ValueError("a field has number 0")
        if wire not in (_VARINT, _FIXED64, _BYTES, _FIXED32):
            raise ValueError(f"wire type {wire} does not exist")
        # A varint is the value, or the length of bytes.
        size, start = _varint(message, start) if wire in (_VARINT, _BYTES) else (8 if wire == _FIXED64 else 4, start)
        if wire == _VARINT:
            yield number, size
            continue
        if start + size > end:
            raise ValueError(f"field {number} is cut off")
        yield number, message[start : start + size]
        start += size


def _varint(message: memoryview, start: int) -> tuple[int, int]:
    value = 0
    # A varint has at most ten bytes; a longer one would be read without end.
    for place, byte in enumerate(message[start : start + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, start + place + 1
    raise ValueError("a number is cut off or too long")


def _to_signed(value: int, bits: int = 64) -> int:
    # Negative numbers arrive as 64-bit two's complement, whatever the field's width.
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


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


def read_forward_backward(message: bytes) -> ForwardBackwardRequest:
    """Read a ForwardBackwardRequest. Raises ValueError for an invalid message."""
    try:
        return _read_forward_backward(read_fields(message))
    except ValueError as error:
        raise ValueError(f"the body is not a ForwardBackwardRequest: {error}") from None


def write_forward_backward(outputs: Sequence[Mapping[str, Numbers]], metrics: Mapping[str, float]) -> bytes:
    """Write a ForwardBackwardOutput: the arrays of each datum, and metrics named `name:reduction`."""
    columns = {name: _write_batched([output[name] for output in outputs]) for name in (outputs[0] if outputs else ())}
    fields = b"".join(data(2, text(1, name) + data(2, column)) for name, column in columns.items())
    record = text(1, "ArrayRecord") + fields + integer(3, len(outputs))
    numbers = [data(3, text(1, name) + double(2, value)) for name, value in metrics.items()]
    return text(1, "ArrayRecord") + data(2, record) + b"".join(numbers)


def write_sample_response(answer: Answer, scoring: Scoring | None = None) -> bytes:
    """Write a SampleResponse, with what `scoring` requested of the prompt."""
    parts = [data(1, _write_sequence(reply)) for reply in answer.replies]
    if scoring and (scored := answer.scored):
        parts.append(data(2, _floats(scored.logprobs)))
        if scored.topk_tokens is not None:
            parts.append(data(3, _write_top(scored.topk_tokens, scored.topk_logprobs)))
        if scored.of_targets is not None:
            parts.append(data(5, _write_targets(scoring, scored.of_targets)))
        if answer.alternatives is not None:
            tensors = enumerate(map(write_tensor, answer.alternatives), start=1)
            parts.append(data(6, b"".join(data(number, tensor) for number, tensor in tensors)))
    return b"".join(parts)


def _read_forward_backward(fields: Fields) -> ForwardBackwardRequest:
    config: dict[str, float | str] = {name: last_double(entry, 2) for name, entry in read_mapping(fields, 5)}
    for name, entry in read_mapping(fields, 7):
        value = read_fields(last_bytes(entry, 2))
        config[name] = last_text(value, 2) if 2 in value else last_double(value, 1)
    return ForwardBackwardRequest(
        model_id=last_text(fields, 1),
        seq_id=last_int(fields, 2, bits=32),
        data=[_read_datum(read_fields(datum)) for datum in all_bytes(fields, 3)],
        loss=last_text(fields, 4),
        loss_config=config,
        forward_only=bool(last_int(fields, 6)),
    )


def _read_datum(fields: Fields) -> tuple[list[int], dict[str, Array]]:
    tokens: list[int] = []
    for chunk in map(read_fields, all_bytes(fields, 1)):
        if set(chunk) != {1}:
            raise ValueError("a chunk of a model input is not text; this model reads only text")
        encoded = read_fields(last_bytes(chunk, 1))
        tokens += _read_array(last_bytes(encoded, 1), np.dtype("<i4")).tolist()
    inputs = {name: read_tensor(read_fields(last_bytes(entry, 2))) for name, entry in read_mapping(fields, 2)}
    return tokens, inputs


def _write_batched(arrays: Sequence[Numbers]) -> bytes:
    contents = [_to_bytes(array) for array in arrays]
    offsets = np.cumsum([0, *map(len, contents)], dtype="<i8").tobytes()
    trailing = packed_integers(4, arrays[0].shape[1:])
    return data(1, b"".join(contents)) + data(2, offsets) + integer(3, _type_code(arrays[0])) + trailing


def _write_sequence(reply: Sampled) -> bytes:
    tokens = np.asarray(reply.tokens, "<i4").tobytes()
    top = b"" if reply.topk_tokens is None else data(4, _write_top(reply.topk_tokens, reply.topk_logprobs))
    return integer(1, _STOP_REASONS[reply.stop_reason]) + data(2, tokens) + data(3, _floats(reply.logprobs)) + top


def _write_top(tokens: Integers, logprobs: Floats | None) -> bytes:
    """Write the best tokens at each position, the most likely first, (positions, k). A position with NaN has none."""
    assert logprobs is not None
    empty, (length, k) = np.isnan(logprobs), tokens.shape
    ids = np.where(empty, _NO_TOKEN, tokens).astype("<i4").tobytes()
    return data(1, ids) + data(2, _floats(np.where(empty, _NO_LOGPROB, logprobs))) + integer(3, k) + integer(4, length)


def _write_targets(scoring: Scoring, logprobs: Floats) -> bytes:
    """Write log-probabilities of targets in the layout of the request's: dense, or compressed rows."""
    if scoring.sparse is None:
        return write_tensor(logprobs)
    starts, columns = scoring.sparse
    values = logprobs[np.repeat(np.arange(len(logprobs)), np.diff(starts)), columns]
    places = data(2, _to_bytes(starts)) + data(3, _to_bytes(columns))
    sparse = data(2, data(1, _to_bytes(values)) + places)
    return sparse + integer(3, _type_code(values)) + packed_integers(4, logprobs.shape)


def _floats(values: ArrayLike) -> bytes:
    return np.asarray(values, "<f4").tobytes()


_FLOAT32, _INT64 = 1, 2
_DTYPES: dict[int, np.dtype[np.number]] = {_FLOAT32: np.dtype("<f4"), _INT64: np.dtype("<i8"), 3: np.dtype("<i4")}
# 256 MiB of float32: a shape is a few bytes and could ask for any amount of memory.
_MAX_CELLS = 1 << 26


def read_tensor(fields: Fields) -> Array:
    """Read a Tensor: float32 or int64; a sparse one (compressed rows) is filled with zeros."""
    code = last_int(fields, 3)
    if code not in _DTYPES:
        raise ValueError(f"a tensor has type {code}; expected float32 (1), int64 (2) or int32 (3)")
    shape = all_ints(fields, 4)
    if 2 in fields:
        sparse = read_fields(last_bytes(fields, 2))
        starts, columns = (_read_array(last_bytes(sparse, number), np.dtype(np.int64)) for number in (2, 3))
        array = fill_sparse(_read_array(last_bytes(sparse, 1), _DTYPES[code]), starts, columns, shape, fill=0)
    else:
        array = _read_array(last_bytes(fields, 1), _DTYPES[code])
        array = array.reshape(shape) if shape else array
    return array.astype(np.float32) if code == _FLOAT32 else array.astype(np.int64)


def write_tensor(array: Numbers) -> bytes:
    return data(1, _to_bytes(array)) + integer(3, _type_code(array)) + packed_integers(4, array.shape)


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


def _read_array(content: memoryview, dtype: np.dtype[NumberT]) -> NDArray[NumberT]:
    """Read bytes as a flat array. Raises ValueError unless they are a whole number of values."""
    if len(content) % dtype.itemsize:
        raise ValueError(f"{len(content)} bytes are not a whole number of values of {dtype.itemsize} bytes")
    return np.frombuffer(content, dtype)


def _type_code(array: Numbers) -> int:
    return _FLOAT32 if array.dtype.kind == "f" else _INT64


def _to_bytes(array: Numbers) -> bytes:
    return array.astype(_DTYPES[_type_code(array)], copy=False).tobytes()
