"""The source of a test function, with the constants and functions that it reads.

A prompt template is usually a constant next to the test, in its class or in a module of prompts: without these an edited
prompt would reuse old replies.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from pytest_crucible.features import all_features

# Types whose repr is the same in every process; that of other objects holds an address.
_PLAIN = (str, bytes, int, float, bool, type(None), tuple, list, dict, set, frozenset)
_INSTALLED = ("site-packages", "dist-packages")


def sources(function: Callable[..., Any], owner: type | None = None) -> Iterator[str]:
    """Yield the sources of a function and of everything that it reads, through the user's own functions to any depth.

    Installed packages count by their names only. `owner` is the class whose attributes `self` has.
    """
    yield from _of(function, owner, set())


def _of(function: Any, owner: type | None, visited: set[int]) -> Iterator[str]:
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        yield _stable_repr((function.args, function.keywords))
        yield from _of(function.func, owner, visited)
        return
    code = getattr(function, "__code__", None)
    if code is None:
        yield from _instance_sources(function, visited)
    # Functions may call each other in a circle.
    elif id(code) not in visited:
        visited.add(id(code))
        yield _source(function)
        for name, value in _names(function, code, owner):
            yield from _read(name, value, owner, visited)


def _read(name: str, value: Any, owner: type | None, visited: set[int]) -> Iterator[str]:
    # Static, class method, property.
    value = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    if isinstance(value, _PLAIN):
        yield f"{name}={_stable_repr(value)}"
    elif isinstance(value, types.FunctionType) and _is_theirs(value):
        yield from _of(value, owner, visited)


def _is_theirs(function: types.FunctionType) -> bool:
    """Return whether the user wrote the function: neither Python's, nor an installed package's, nor ours."""
    top = (function.__module__ or "").partition(".")[0]
    installed = any(folder in function.__code__.co_filename for folder in _INSTALLED)
    return not installed and top not in sys.stdlib_module_names and top != __name__.partition(".")[0]


def _instance_sources(instance: Any, visited: set[int]) -> Iterator[str]:
    """Yield the sources of a callable object: its class, its plain attributes, and its `__call__`."""
    plain = {name: value for name, value in getattr(instance, "__dict__", {}).items() if isinstance(value, _PLAIN)}
    yield f"{getattr(instance, '__qualname__', type(instance).__qualname__)} {_stable_repr(plain)}"
    call = inspect.getattr_static(instance, "__call__", None)
    if isinstance(call, types.FunctionType):
        yield from _of(call, type(instance), visited)


def _stable_repr(value: Any) -> str:
    """Return the repr, with sets in an order that is the same in every process."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({sorted(map(_stable_repr, value))})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({[_stable_repr(item) for item in value]})"
    if isinstance(value, dict):
        return f"dict({[(_stable_repr(key), _stable_repr(item)) for key, item in value.items()]})"
    return repr(value)


def _names(function: Any, code: types.CodeType, owner: type | None) -> Iterator[tuple[str, Any]]:
    """Yield names and values that the function reads: defaults, its module, its class, named modules and its closure."""
    yield "defaults", function.__defaults__
    yield "defaults by name", function.__kwdefaults__
    named = sorted(set(_code_names(code)))
    globals_read = {name: function.__globals__[name] for name in named if name in function.__globals__}
    homes = [value for value in globals_read.values() if isinstance(value, types.ModuleType)]
    yield from globals_read.items()
    for home in (owner, *homes):
        for name in named:
            if home is not None and name not in globals_read and hasattr(home, name):
                yield f"{home.__name__}.{name}", inspect.getattr_static(home, name, None)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            # a cell that is not filled yet
            continue


def _code_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_names(constant)


def _source(function: Callable[..., Any]) -> str:
    try:
        return _without_comments(inspect.getsource(function))
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(function if code is None else (code.co_code, code.co_consts))


def _is_judging(decorator: ast.expr) -> bool:
    """Return whether a decorator is a marker that judges replies, or adds variants: replies do not depend on it."""
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (
        isinstance(name, ast.Attribute) and isinstance(name.value, ast.Attribute) and name.value.attr == "mark"
    ) and name.attr in _judging_markers()


@functools.cache
def _judging_markers() -> frozenset[str]:
    """Return the markers that a function's source is read without: an edited target leaves stored replies in use."""
    further = (name for feature in all_features() for name in feature.judging_markers)
    return frozenset({"quality_target", "ab_compare", *further})


def _without_comments(source: str) -> str:
    """Return the code without comments and layout. Docstrings stay: a function may read its own, as a prompt.

    >>> _without_comments("    x = (1,   # one\\n         2)") == _without_comments("x = (1, 2)")
    True
    """
    try:
        tree = ast.parse(textwrap.dedent(source))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                node.decorator_list = [decorator for decorator in node.decorator_list if not _is_judging(decorator)]
        # Unlike ast.dump, this text is almost the same in all versions of Python.
        return ast.unparse(tree)
    except SyntaxError:
        # The source of a lambda in the middle of an expression does not parse on its own.
        return source
