"""The process of a submission's tests: they call the code's functions by proxies, and only data comes back.

An answer that cannot be read, or none, ends the tests at once: an exception could be caught by them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from pytest_crucible.sandbox import pipes
from pytest_crucible.sandbox.crossing_exceptions import rebuild_exception
from pytest_crucible.sandbox.plain_data import NotPlain, dump, load
from pytest_crucible.sandbox.run_source import new_module, outcome_of, run_source

# Descriptors of the two pipes to the code's process; the one before them is the report's.
CALLS, ANSWERS = 4, 5
GONE = "gone"
End = Callable[[Mapping[str, str]], Any]


def run_tests(tests: Mapping[str, Any], name: str, end: End) -> Mapping[str, str]:
    """Return the outcome of the tests; `end` reports an outcome at once and ends the process."""
    module = new_module(name, tests["seed"])
    code = _Code(module.__dict__, end)
    try:
        compile(tests["tests"], "<tests>", "exec", dont_inherit=True)
        run_source(tests["setup"], module)
    except Exception as error:
        return {"status": "refused", "detail": f"the tests cannot be run: {outcome_of(error)['detail']}"}
    # Written before any of the code ran, so it can be trusted.
    if (problem := code.receive()) is not None:
        return {"status": "refused", "detail": str(problem)}
    try:
        code.receive()
        module.__dict__.update({function: Proxy(code, n, function) for n, function in enumerate(tests["functions"])})
        run_source(tests["tests"], module)
    except BaseException as error:
        return outcome_of(error)
    return {"status": "passed", "detail": ""}


class _Code:
    """The functions in the other process."""

    def __init__(self, namespace: Mapping[str, Any], end: End) -> None:
        self._namespace = namespace
        self._end = end

    def call(self, proxy: Proxy, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Call a function and return its result. Raises what it raised, by the name of its class."""
        try:
            request = dump([proxy._number, arguments, dict(named)], _number_of)
        except NotPlain as problem:
            self._refuse(proxy, problem)
        try:
            pipes.send(CALLS, request)
        except OSError:
            self._end({"status": GONE, "detail": ""})
        return self.receive()

    def receive(self) -> Any:
        """Return the value of the next answer."""
        try:
            status, value = load(pipes.receive(ANSWERS), lambda number: Proxy(self, int(number), "function"))
        except (EOFError, OSError):
            self._end({"status": GONE, "detail": ""})
        except (ValueError, TypeError) as error:
            self._end({"status": "failed", "detail": f"its answer is {error}"})
        if status == "raised":
            raise rebuild_exception(value, self._namespace)
        if status == "not plain":
            self._end({"status": "failed", "detail": f"it returned {value}"})
        return _return_later(value) if status == "awaited" else value

    def _refuse(self, proxy: Proxy, problem: NotPlain) -> None:
        # Nothing that the code returned may make its sample lost instead of wrong.
        status = "failed" if isinstance(problem.value, types.CoroutineType) else "refused"
        self._end({"status": status, "detail": f"the tests call {proxy.__name__} with {problem}"})


class Proxy:
    """A function of the code. Arguments and results are copies."""

    def __init__(self, code: _Code, number: int, name: str) -> None:
        self._code = code
        self._number = number
        self.__name__ = self.__qualname__ = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._code.call(self, arguments, named)


async def _return_later(value: Any) -> Any:
    """Return the result of an `async def` function, which has run already."""
    return value


def _number_of(value: Any) -> int:
    if isinstance(value, Proxy):
        return value._number
    raise NotPlain(value)
