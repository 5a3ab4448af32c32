"""Arguments and results as bytes that carry data alone: reading them never runs code.

Numbers, text, bytes, lists, tuples, sets, dictionaries, Decimal, Fraction and range cross as they are, and their subclasses
as these. numpy's arrays become lists. An iterator becomes one over its first items, a function a handle on itself.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

# Items of an iterator that cross: some generators never end.
MOST_ITEMS = 10_000
# Longer integers cross as hexadecimal digits: reading decimal ones takes quadratic time, and Python refuses it.
_PLAIN_INTEGER = 1 << 53
_SEQUENCES: Mapping[str, Callable[[Iterable[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


class NotPlain(TypeError):
    """A value that cannot cross between the processes."""

    def __init__(self, value: object) -> None:
        super().__init__(f"a value of type {type(value).__name__}, which is not plain data")
        self.value = value


def dump(value: Any, handle: Callable[[Any], int] | None = None) -> bytes:
    """Return a value as bytes; `handle` gives the number of a function. Raises NotPlain, and RecursionError for deep values."""
    return json.dumps(_encode(value, handle)).encode()


def load(data: bytes, function: Callable[[int], Any]) -> Any:
    """Return the value; `function` gives the function of a handle. Raises ValueError for bytes that `dump` did not write."""
    try:
        return _decode(json.loads(data), function)
    except (LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"not plain data: {error}") from error


def _encode(value: Any, handle: Callable[[Any], int] | None) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if -_PLAIN_INTEGER < value < _PLAIN_INTEGER else ["int", hex(value)]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else ["float", str(float(value))]
    for tag in _SEQUENCES:
        if isinstance(value, _SEQUENCES[tag]):  # type: ignore[arg-type]
            return [tag, *(_encode(item, handle) for item in value)]
    if isinstance(value, dict):
        return ["dict", *([_encode(key, handle), _encode(item, handle)] for key, item in value.items())]
    return _encode_rarer(value, handle)


def _encode_rarer(value: Any, handle: Callable[[Any], int] | None) -> Any:
    if isinstance(value, bytes | bytearray):
        return ["bytearray" if isinstance(value, bytearray) else "bytes", value.hex()]
    if isinstance(value, complex):
        return ["complex", _encode(value.real, None), _encode(value.imag, None)]
    if isinstance(value, Decimal):
        return ["Decimal", str(value)]
    if isinstance(value, Fraction):
        return ["Fraction", _encode(value.numerator, None), _encode(value.denominator, None)]
    if isinstance(value, range):
        return ["range", *(_encode(part, None) for part in (value.start, value.stop, value.step))]
    # numpy is not imported here: a program that uses it has imported it.
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _encode(value.tolist(), handle)
    if hasattr(value, "__next__"):
        items = [_encode(item, handle) for item in itertools.islice(value, MOST_ITEMS + 1)]
        return ["iterator", *items]
    if callable(value) and handle is not None:
        return ["function", handle(value)]
    raise NotPlain(value)


def _decode(value: Any, function: Callable[[int], Any]) -> Any:
    if not isinstance(value, list):
        if isinstance(value, dict):
            raise ValueError("not plain data: a JSON object")
        return value
    tag, parts = value[0], value[1:]
    if tag == "dict":
        return {_decode(key, function): _decode(item, function) for key, item in parts}
    if tag in _DECODERS:
        return _DECODERS[tag](*parts)
    items = [_decode(item, function) for item in parts]
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](items)
    if tag in _NUMBERS:
        return _NUMBERS[tag](*items)
    if tag == "iterator":
        return _first_items(items)
    if tag == "function":
        return function(*items)
    raise ValueError(f"not plain data: {str(tag)[:40]!r}")


_DECODERS: Mapping[str, Callable[..., Any]] = {
    "int": lambda digits: int(digits, 16),
    "float": {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__,
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "Decimal": Decimal,
}
_NUMBERS: Mapping[str, Callable[..., Any]] = {"complex": complex, "Fraction": Fraction, "range": range}


def _first_items(items: list[Any]) -> Any:
    yield from items[:MOST_ITEMS]
    if len(items) > MOST_ITEMS:
        raise OverflowError(f"only the first {MOST_ITEMS} items of an iterator cross between the processes")
