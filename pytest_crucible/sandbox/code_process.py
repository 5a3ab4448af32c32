"""The process of a submission's code: it defines the functions and answers calls. It never holds the tests."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from pytest_crucible.sandbox import pipes
from pytest_crucible.sandbox.crossing_exceptions import describe_exception
from pytest_crucible.sandbox.plain_data import NotPlain, dump, load
from pytest_crucible.sandbox.run_source import new_module, run_source, text_of

# Descriptors of the two pipes to the tests' process.
ANSWERS, CALLS = 3, 4


def serve(code: str, name: str, functions: Sequence[str]) -> None:
    """Run the code, then answer calls until the tests' process closes its pipe."""
    module = new_module(name)
    handles: list[Any] = []
    try:
        run_source(code, module)
        for function in functions:
            if function not in module.__dict__:
                raise NameError(f"{function} is not defined")
            handles.append(module.__dict__[function])
        send("loaded", None)
    except BaseException as error:
        _send_error(error)
        return
    while True:
        try:
            number, arguments, named = load(pipes.receive(CALLS), handles.__getitem__)
        except EOFError:
            return
        _answer(handles, handles[number], arguments, named)


def _answer(handles: list[Any], function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> None:
    def handle(value: Any) -> int:
        handles.append(value)
        return len(handles) - 1

    try:
        result, status = function(*arguments, **named), "returned"
        if isinstance(result, types.CoroutineType):
            # The tests await it, so it runs in this process first.
            result, status = _run_coroutine(result), "awaited"
        answer = dump([status, result], handle)
        pipes.send(ANSWERS, answer)
    except BaseException as error:
        _send_error(error)


def _run_coroutine(coroutine: Any) -> Any:
    import asyncio

    return asyncio.run(coroutine)


def send(status: str, value: Any) -> None:
    """Send a message to the tests' process."""
    pipes.send(ANSWERS, dump([status, value]))


def _send_error(error: BaseException) -> None:
    if isinstance(error, NotPlain):
        send("not plain", text_of(error))
        return
    send("raised", describe_exception(error))
