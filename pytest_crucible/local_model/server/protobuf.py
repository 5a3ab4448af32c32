"""The subset of the Protocol Buffers wire format that Tinker's messages use: varints, doubles and bytes.

A message is read as its fields, `{number: [values]}`, and written as the concatenated bytes of its fields.
https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Value: TypeAlias = int | bytes | memoryview
Fields: TypeAlias = Mapping[int, Sequence[Value]]

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
    # Negative numbers arrive as 64-bit two's complement, whatever the field's width.
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


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
            number_read, start = _varint(memoryview(value), start)
            integers.append(_to_signed(number_read))
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
    """Encode a 64-bit field."""
    return _tag(number, _FIXED64) + _DOUBLE.pack(value)


def data(number: int, value: bytes) -> bytes:
    """Encode bytes or an inner message; also if empty, so that it is present."""
    return b"".join((_tag(number, _BYTES), varint(len(value)), value))


def text(number: int, value: str) -> bytes:
    """Encode text."""
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
        if wire == _VARINT:
            value, start = _varint(message, start)
            yield number, value
            continue
        length, start = (
            (8, start) if wire == _FIXED64 else (4, start) if wire == _FIXED32 else _length(message, start, wire)
        )
        if start + length > end:
            raise ValueError(f"field {number} is cut off")
        yield number, message[start : start + length]
        start += length


def _length(message: memoryview, start: int, wire: int) -> tuple[int, int]:
    if wire != _BYTES:
        raise ValueError(f"wire type {wire} does not exist")
    return _varint(message, start)


def _varint(message: memoryview, start: int) -> tuple[int, int]:
    value = 0
    # A varint has at most ten bytes; a longer one would be read without end.
    for place, byte in enumerate(message[start : start + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, start + place + 1
    raise ValueError("a number is cut off or too long")


def _to_signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
