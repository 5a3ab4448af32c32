"""Values between a commit's process and the other one: arguments of test functions, what they ask, return and raise.

Loaded by `child` by its path: the commit's environment may have another version of this package, or none.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import inspect
import itertools
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any

# The fields of a reply that are tuples of plain values.
_TUPLES = ("logprobs", "tool_calls")


def _own_class(module: str, name: str) -> Any:
    """Return a class of the commit's own version of the package; None without it."""
    try:
        return getattr(importlib.import_module(f"pytest_crucible.{module}"), name)
    except (ImportError, AttributeError):
        return None


class _Record:
    """Stands in for a record of the package, in an environment without it."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def _record(name: str, fields: Mapping[str, Any]) -> Any:
    """Return a record of the commit's version of the package, with the fields that it knows."""
    kind = _own_class("records", name)
    if kind is None:
        return _Record(**fields)
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{key: value for key, value in fields.items() if key in names})


class Unusable(Exception):
    """A value that cannot be sent to the other process."""


class _LostReply(Exception):
    """A call that has no reply, in an environment without the package."""


def _error(error: Mapping[str, Any]) -> Exception:
    kind = _own_class("records.errors", "BackendError") if error["is_lost"] else ValueError
    raised: Any = (kind or _LostReply)(error["message"])
    raised.crucible_call = error["call"]
    return raised  # type: ignore[no-any-return]  # an exception with a number


class Unit:
    """One unit of the other process, and what its function asks of it."""

    def __init__(self, number: int, channel: Any) -> None:
        self.number, self._channel = number, channel
        self._numbers, self._waiting = itertools.count(), dict[int, Future[Any]]()
        self.replies: list[tuple[Any, int]] = []
        self._is_closed = False
        self.task: asyncio.Task[None] | None = None

    def ask(self, method: str, /, *arguments: Any, **named: Any) -> Future[Any]:
        """Return the future answer of the other process to a call of a method."""
        call, answer = next(self._numbers), Future[Any]()
        if self._is_closed:
            answer.set_exception(_error({"message": "the sample has ended", "is_lost": True, "call": None}))
            return answer
        self._waiting[call] = answer
        message = {"op": "ask", "unit": self.number, "call": call, "method": method}
        self._channel.send(**message, arguments=arguments, named=named)
        return answer

    def answer(self, message: Mapping[str, Any]) -> None:
        """Complete what waits for an answer."""
        waiting = self._waiting.pop(message["call"], None)
        if waiting is None or not waiting.set_running_or_notify_cancel():
            return
        if "error" in message:
            waiting.set_exception(_error(message["error"]))
        else:
            waiting.set_result(message["value"])

    def close(self) -> None:
        """Refuse further questions, and let those that wait raise."""
        self._is_closed = True
        for waiting in tuple(self._waiting.values()):
            # An answer may come at the same moment.
            with contextlib.suppress(InvalidStateError):
                waiting.set_exception(_error({"message": "the sample has ended", "is_lost": True, "call": None}))

    def keep_reply(self, value: Mapping[str, Any]) -> Any:
        """Return a reply, which the function may return."""
        reply = _record("Reply", with_tuples(value["fields"]))
        self.replies.append((reply, value["number"]))
        return reply


class Sampler:
    """The sampler of an async function."""

    def __init__(self, unit: Unit, facts: Mapping[str, Any]) -> None:
        self._unit, self.variables = unit, facts["variables"]
        self.arm = _Record(**facts["arm"])

    async def generate(self, input: Any, /, **parameters: Any) -> Any:
        """Send a request and return the reply."""
        return self._unit.keep_reply(await asyncio.wrap_future(self._unit.ask("generate", input, **parameters)))

    async def choose(self, prompt: str, choices: Sequence[str], /) -> Any:
        """Return the most probable of several choices."""
        return self._unit.keep_reply(await asyncio.wrap_future(self._unit.ask("choose", prompt, list(choices))))

    def stream(self, input: Any, /, **parameters: Any) -> Stream:
        """Return the pieces of a reply as they come."""
        return Stream(self._unit, input, parameters)


class Stream:
    """The pieces of a reply, each asked of the other process."""

    def __init__(self, unit: Unit, input: Any, parameters: Mapping[str, Any]) -> None:
        self._unit, self._opening, self._reply = unit, (input, parameters), None
        self._opened: Future[Any] | None = None

    @property
    def reply(self) -> Any:
        """The whole reply. Raises RuntimeError before the last piece was read."""
        if self._reply is None:
            raise RuntimeError("the stream was not read to its end: its reply is there after the last piece")
        return self._reply

    def _next(self) -> Future[Any]:
        if self._opened is None:
            self._opened = self._unit.ask("open_stream", self._opening[0], **self._opening[1])
        return self._unit.ask("next_piece", self._opened.result())

    def _piece(self, answer: Mapping[str, Any]) -> str | None:
        """Return the piece of an answer; None at the end."""
        if answer["reply"] is not None:
            self._reply = self._unit.keep_reply(answer["reply"])
        piece: str | None = answer["piece"]
        return piece

    def close(self) -> None:
        """Cancel the request, if it has not ended."""
        if self._opened is not None:
            self._unit.ask("close_stream", self._opened.result())

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        if self._opened is None:
            self._opened = self._unit.ask("open_stream", self._opening[0], **self._opening[1])
        await asyncio.wrap_future(self._opened)
        piece = self._piece(await asyncio.wrap_future(self._next()))
        if piece is None:
            raise StopAsyncIteration
        return piece

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        piece = self._piece(self._next().result())
        if piece is None:
            raise StopIteration
        return piece


class BlockingSampler(Sampler):
    """The sampler of a plain function."""

    def generate(self, input: Any, /, **parameters: Any) -> Any:
        """Send a request and wait for the reply."""
        return self._unit.keep_reply(self._unit.ask("generate", input, **parameters).result())

    def choose(self, prompt: str, choices: Sequence[str], /) -> Any:
        """Return the most probable of several choices."""
        return self._unit.keep_reply(self._unit.ask("choose", prompt, list(choices)).result())


class Remote:
    """An object of the other process, such as the endpoint: its texts are here, its methods and numbers are asked there."""

    def __init__(self, unit: Unit, facts: Mapping[str, Any]) -> None:
        self.__dict__.update(facts["texts"])
        self._unit, self._facts = unit, facts

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__["_facts"]
        if name in facts["live"]:
            return self._unit.ask("read", facts["number"], name).result()
        if name not in facts["methods"]:
            raise AttributeError(f"the {facts['kind']} of a commit's function has no {name!r}")

        def call(*arguments: Any, **named: Any) -> Any:
            plain = [_plain_argument(name, value) for value in arguments]
            if name == "run":
                named = {**named, **_here(named)}
            named = {key: _plain_argument(name, value) for key, value in named.items()}
            answer = self._unit.ask("method", facts["number"], name, plain, named)
            return self._later(answer) if facts["methods"][name] else self._value(answer.result())

        return call

    async def _later(self, answer: Future[Any]) -> Any:
        return self._value(await asyncio.wrap_future(answer))

    def _value(self, value: Mapping[str, Any]) -> Any:
        return Remote(self._unit, value["remote"]) if "remote" in value else _plain_result(value["plain"])


def _plain_argument(name: str, value: Any) -> Any:
    """Return an argument of a method of the other process. Raises Unusable."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        raise Unusable(
            f"{name}({value!r:.80}) cannot be called by a commit's function: only JSON comes through"
        ) from None
    return value


def _here(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the directory and the variables with which a program runs on the commit's files and in its environment."""
    search = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    variables = {"PATH": search, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return {"cwd": os.path.abspath(named.get("cwd") or "."), "env": {**variables, **(named.get("env") or {})}}


def _plain_result(value: Any) -> Any:
    return _Record(**value["fields"]) if isinstance(value, dict) and set(value) == {"fields"} else value


def _scorer(unit: Unit) -> Callable[..., None]:
    def score(**values: Any) -> None:
        """Record one value for each name."""
        unit.ask(
            "score", {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
        ).result()

    return score


def decode(unit: Unit, form: Mapping[str, Any], is_async: bool) -> Any:
    """Return the value of an argument."""
    kind, value = form["kind"], form["value"]
    if kind == "path":
        return Path(value)
    if kind == "sample":
        return _record("Sample", value)
    if kind == "sampler":
        return (Sampler if is_async else BlockingSampler)(unit, value)
    if kind == "score":
        return _scorer(unit)
    return Remote(unit, value) if kind == "remote" else value


# -- what becomes of a call ------------------------------------------------------------------------------------------------------


def returned_form(unit: Unit, value: Any) -> dict[str, Any]:
    """Return what a function has returned, in a form that JSON holds; raises Unusable where there is none."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise Unusable("the test returned something to await: return await sampler.generate(...)")
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise Unusable("the test returned a generator, which has run nothing: return a reply")
    if isinstance(value, Stream):
        raise Unusable("the test returned a stream: return its reply, after the last piece")
    for reply, number in unit.replies:
        if reply is value:
            return {"reply": number}
    if type(value).__name__ == "Reply" and dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        fields |= {name: list(field) for name, field in fields.items() if isinstance(field, tuple)}
        return {"fields": {name: field for name, field in fields.items() if is_plain(field)}}
    if not is_plain(value):
        raise Unusable(
            f"the test returned {type(value).__name__}, which JSON cannot hold, so it cannot come from the process of a commit: "
            "return text, or lists, dicts with names, numbers and texts"
        )
    return {"value": value}


def with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a reply with tuples where JSON has lists."""
    return {name: tuple(value) if name in _TUPLES and value is not None else value for name, value in fields.items()}


def is_plain(value: Any) -> bool:
    """Return whether a value is the same after it was written as JSON and read again."""
    try:
        return repr(json.loads(json.dumps(value))) == repr(value)
    except (TypeError, ValueError, RecursionError):
        return False


def raised_form(error: BaseException) -> dict[str, Any]:
    """Return what a function has raised."""
    import pytest

    text = str(error)
    if isinstance(error, pytest.skip.Exception):
        return {"skipped": text}
    if isinstance(error, (AssertionError, pytest.fail.Exception)):
        return {"failed": text}
    if isinstance(error, Unusable):
        return {"unusable": text}
    # Its own class and sentence are in the other process.
    if (call := getattr(error, "crucible_call", None)) is not None:
        return {"call": call}
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {"raised": type(error).__name__, "message": text, "traceback": lines}
