"""Exceptions that cross from a submission's code to its tests: those of a closed list, made of plain data."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_crucible.sandbox.plain_data import dump
from pytest_crucible.sandbox.run_source import text_of

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
    for known in _listed(names, namespace):
        for error in _build(known, text, arguments):
            return error
    return RuntimeError(": ".join(part for part in (*names[:1], text) if part))


def _plain_arguments(error: BaseException) -> list[Any] | None:
    try:
        arguments = list(error.args)
        return arguments if len(dump(arguments)) <= MOST_ARGUMENTS else None
    except BaseException:
        # They may be no plain data, and the program may define an exception whose `args` raises.
        return None


def _listed(names: Iterable[str], namespace: Mapping[str, Any]) -> Iterator[type[BaseException]]:
    for name in names:
        for known in (namespace.get(name), _KNOWN.get(name)):
            if isinstance(known, type) and issubclass(known, (Exception, SystemExit)) and not _ends_quietly(known):
                yield known


def _ends_quietly(kind: type[BaseException]) -> bool:
    """Return True for classes that the interpreter or a test runner does not take for a failure."""
    skipped = getattr(sys.modules.get("unittest"), "SkipTest", ())
    return issubclass(kind, (*_CONTROL_FLOW, skipped) if skipped else _CONTROL_FLOW)


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
