"""What an answer depends on besides the model: stored answers may stand in for new ones only when all of it is equal."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pytest_crucible.metrics.definition import Metric
from pytest_crucible.records import Fingerprint

_PLAIN = (str, bytes, int, float, bool, type(None), tuple, list, dict, set, frozenset)


def fingerprint(
    *, dataset: str, function: Callable[..., Any], case: str, metrics: Iterable[Metric], sampling: Mapping[str, Any]
) -> Fingerprint:
    """Four hashes: the dataset's rows, the function (and what it reads), the metrics, and how replies are sampled."""
    return Fingerprint(
        dataset=dataset,
        function=_sha([case, *_sources(function)]),
        metrics=_sha(sorted(f"{metric.name}={metric_version(metric)}" for metric in metrics)),
        sampling=_sha(sampling),
    )


def metric_version(metric: Metric) -> str:
    """The declared version, or a hash of the function's source."""
    return metric.facts.version or _sha(list(_sources(metric.function)))[:16]


def differences(one: Fingerprint, other: Fingerprint) -> list[str]:
    """The parts in which two fingerprints differ, in words."""
    words = {
        "dataset": "dataset rows",
        "function": "test function",
        "metrics": "metrics",
        "sampling": "sampling parameters",
    }
    return [word for part, word in words.items() if getattr(one, part) != getattr(other, part)]


def _sources(function: Callable[..., Any], seen: set[int] | None = None) -> Iterator[str]:
    """The function's source, and the constants and functions of its own module that it names.

    A prompt template is usually a constant beside the test: without it, an edited prompt would re-use old answers.
    """
    seen = set() if seen is None else seen
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        yield _said((function.args, function.keywords))
        yield from _sources(function.func, seen)
        return
    code = getattr(function, "__code__", None)
    if code is None:
        yield from _called(function, seen)
        return
    if id(code) in seen:
        return
    seen.add(id(code))
    yield _source(function)
    for name, value in _names(function, code):
        if isinstance(value, _PLAIN):
            yield f"{name}={_said(value)}"
        elif isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            yield from _sources(value, seen)


def _called(instance: Any, seen: set[int]) -> Iterator[str]:
    """An object that is called: its class says how, its plain attributes with what."""
    plain = {name: value for name, value in getattr(instance, "__dict__", {}).items() if isinstance(value, _PLAIN)}
    yield f"{getattr(instance, '__qualname__', type(instance).__qualname__)} {_said(plain)}"
    call = inspect.getattr_static(instance, "__call__", None)
    if isinstance(call, types.FunctionType):
        yield from _sources(call, seen)


def _said(value: Any) -> str:
    """The repr, with sets in an order that is the same in every process."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({sorted(map(_said, value))})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({[_said(item) for item in value]})"
    if isinstance(value, dict):
        return f"dict({[(_said(key), _said(item)) for key, item in value.items()]})"
    return repr(value)


def _names(function: Any, code: types.CodeType) -> Iterator[tuple[str, Any]]:
    """Names that the function reads from its module or its closure, with their values, and its defaults."""
    yield "defaults", function.__defaults__
    yield "defaults by name", function.__kwdefaults__
    for name in sorted(set(_global_names(code))):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(function if code is None else (code.co_code, code.co_consts))


def _sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()
