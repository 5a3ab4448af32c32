"""Messages between the processes of the sandbox: plain data and exceptions over pipes. Reading them never runs code."""

from __future__ import annotations

import builtins
import itertools
import json
import math
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

# A longer message would only fill the memory of its reader.
MOST_BYTES = 64 << 20
_LENGTH = struct.Struct(">I")


def send_message(descriptor: int, message: bytes) -> None:
    """Write a message. Raises OSError, and ValueError for a message that is too long."""
    if len(message) > MOST_BYTES:
        raise ValueError(f"a message has {len(message)} bytes; at most {MOST_BYTES} can be sent")
    data = memoryview(_LENGTH.pack(len(message)) + message)
    while data:
        data = data[os.write(descriptor, data) :]


def receive_message(descriptor: int) -> bytes:
    """Read a message, and not a byte more. Raises EOFError when the pipe is closed, ValueError for a message that is too long."""
    (length,) = _LENGTH.unpack(_read(descriptor, _LENGTH.size))
    if length > MOST_BYTES:
        raise ValueError(f"a message of {length} bytes was announced; at most {MOST_BYTES} are read")
    return _read(descriptor, length)


def _read(descriptor: int, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = os.read(descriptor, min(length - len(data), 1 << 20))
        if not chunk:
            raise EOFError("the pipe was closed")
        data += chunk
    return bytes(data)


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


# A program's error text is cut here: it could be megabytes long.
MOST_DETAIL = 1000
# Classes of an exception, from its own up: the tests may know one of them.
MOST_CLASSES = 20
# Bytes of the arguments that cross: of longer ones, only the text does.
MOST_ARGUMENTS = 1 << 16
# Raised within the tests they would end a loop, a generator or a coroutine as if it were done: `all(map(f, cases))` would be true.
_CONTROL_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt)
_KNOWN: Mapping[str, type[BaseException]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, (Exception, SystemExit)) and not issubclass(kind, _CONTROL_FLOW)
}
Description = list[Any]
"""The names of an exception's classes, its text, and its arguments, or None if they are not plain data."""


def describe_exception(error: BaseException) -> Description:
    """Return what crosses of an exception."""
    names = [kind.__name__ for kind in type(error).__mro__[:MOST_CLASSES]]
    return [names, text_of(error), _plain_arguments(error)]


def rebuild_exception(description: Any, namespace: Mapping[str, Any]) -> BaseException:
    """Return an exception of its first class on the list: of the tests' `namespace`, or built in. Else a RuntimeError."""
    try:
        names, text, arguments = description
        names, text = [str(name) for name in names], str(text)
    except (TypeError, ValueError):
        # The code wrote the message itself.
        return RuntimeError("an exception that cannot be read")
    for kind in _candidate_classes(names, namespace):
        for error in _build(kind, text, arguments):
            return error
    return RuntimeError(": ".join(part for part in (*names[:1], text) if part))


def _plain_arguments(error: BaseException) -> list[Any] | None:
    try:
        arguments = list(error.args)
        return arguments if len(dump(arguments)) <= MOST_ARGUMENTS else None
    except BaseException:
        # They may be no plain data, and the program may define an exception whose `args` raises.
        return None


def _candidate_classes(names: Iterable[str], namespace: Mapping[str, Any]) -> Iterator[type[BaseException]]:
    # Classes that a test runner does not take for a failure.
    skipped = getattr(sys.modules.get("unittest"), "SkipTest", ())
    quiet = (*_CONTROL_FLOW, skipped) if skipped else _CONTROL_FLOW
    for name in names:
        for kind in (namespace.get(name), _KNOWN.get(name)):
            if isinstance(kind, type) and issubclass(kind, (Exception, SystemExit)) and not issubclass(kind, quiet):
                yield kind


def _build(kind: type[BaseException], text: str, arguments: Any) -> Iterator[BaseException]:
    """Yield an exception with this text, if the class can have one."""
    if kind not in _KNOWN.values():
        # Made without its own constructor, which may want other arguments.
        error = kind.__new__(kind, text)
        error.args = tuple(arguments) if arguments is not None else (text,) if text else ()
        yield error
        return
    for values in (arguments, [text] if text else []):
        try:
            error = kind(*values)
        except Exception:
            continue  # UnicodeDecodeError, for example, needs five arguments
        if values is not arguments or text_of(error) == text:
            yield error


def text_of(value: object) -> str:
    try:
        return str(value)[:MOST_DETAIL]
    except BaseException:
        # The program may define an exception whose __str__ raises.
        return ""
