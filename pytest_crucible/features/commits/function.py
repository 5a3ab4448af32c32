"""The function of a commit: called here for a unit, it runs in the commit's process."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.features.commits.child_values import is_plain, with_tuples
from pytest_crucible.features.commits.process import CommitProcess, Message, Test
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import BackendError
from pytest_crucible.sample.sampler import ReplyStream, Sampler
from pytest_crucible.session.call import ScoreRecorder


class NoResult(BackendError):
    """A lost result of a commit's function: its process has ended, or a value has no form in JSON."""


class _RaisedThere(Exception):
    """The base of exceptions that a commit's function has raised, which have the names of their classes."""


class _Traceback(Exception):
    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class CommitFunction:
    """A test function of a commit, in place of today's."""

    test: Test
    name: str
    """The arm's name."""
    running: Callable[[], CommitProcess]
    """Returns the process of the commit, started again if it has ended; blocks meanwhile. Raises SpecError."""

    @property
    def takes(self) -> tuple[str, ...]:
        return self.test.takes

    async def __call__(self, **arguments: Any) -> Any:
        """Return what the function returns. Raises what it raises, and NoResult."""
        process = await asyncio.to_thread(self.running)
        return await _Call(self.name, process, self.test.nodeid, arguments).result()


@dataclass(eq=False)
class _Call:
    """One call, and what the function asks of the arm while it runs."""

    name: str
    process: CommitProcess
    test: str
    arguments: Mapping[str, Any]
    _errors: dict[int, BaseException] = field(default_factory=dict)
    """By the number of the question that they answer."""
    _replies: list[Reply] = field(default_factory=list)
    _streams: list[ReplyStream] = field(default_factory=list)
    _objects: list[Any] = field(default_factory=list)
    """Objects of this process whose methods the function may call, such as the endpoint."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def result(self) -> Any:
        forms = {name: self._encode(name, value) for name, value in self.arguments.items()}
        self._unit, messages = self.process.begin(asyncio.get_running_loop())
        is_done = False
        try:
            self.process.send({"op": "call", "unit": self._unit, "test": self.test, "arguments": forms})
            while (message := await messages.get()) is not None:
                if message["op"] == "done":
                    is_done = True
                    return self._read_result(message["form"])
                self._start(self._answer(message))
            is_done = True
            raise NoResult(f"the process of {self.name} {self.process.describe_end()}")
        finally:
            self.process.end(self._unit)
            for task in tuple(self._tasks):
                task.cancel()
            if not is_done:
                self.process.send({"op": "cancel", "unit": self._unit})

    # -- arguments ------------------------------------------------------------------------------------------------------

    def _encode(self, name: str, value: Any) -> Message:
        """Return an argument as JSON. Raises NoResult where there is no such form."""
        if isinstance(value, Sample):
            return {"kind": "sample", "value": self._sample(value)}
        if isinstance(value, Sampler):
            arm = value.arm
            facts = {"name": arm.name, "role": arm.role, "parameters": dict(arm.parameters)}
            return {"kind": "sampler", "value": {"variables": dict(value.variables), "arm": facts}}
        if isinstance(value, ScoreRecorder):
            return {"kind": "score", "value": None}
        if isinstance(value, Path):
            return {"kind": "path", "value": str(value)}
        if hasattr(value, "base_url"):
            return {"kind": "remote", "value": self._describe(value)}
        if not is_plain(value):
            raise NoResult(
                f"{name!r} is {type(value).__name__}, which JSON cannot hold, so the function of {self.name} cannot receive it: "
                "let the fixture return text, numbers, lists or dicts, or a path"
            )
        return {"kind": "value", "value": value}

    def _sample(self, sample: Sample) -> Message:
        fields = {name: getattr(sample, name) for name in ("id", "input", "expected", "group")}
        fields["metadata"] = dict(sample.metadata)
        for name, value in fields.items():
            if not is_plain(value):
                raise NoResult(
                    f"the {name} of sample {sample.id!r} is {type(value).__name__}, which JSON cannot hold, so the function of "
                    f"{self.name} cannot receive it"
                )
        return fields

    def _describe(self, value: Any) -> Message:
        """Return the public face of an object: its texts, the names of what changes, and its methods."""
        self._objects.append(value)
        names = [name for name in dir(type(value)) if not name.startswith("_")]
        members = {name: inspect.getattr_static(type(value), name) for name in names}
        methods = {name: inspect.iscoroutinefunction(each) for name, each in members.items() if callable(each)}
        values = {name: getattr(value, name) for name in names if name not in methods}
        texts = {name: each for name, each in values.items() if isinstance(each, str)}
        return {
            "number": len(self._objects) - 1,
            "kind": type(value).__name__,
            "texts": texts,
            "live": [name for name in values if name not in texts],
            "methods": methods,
        }

    # -- what the function asks ---------------------------------------------------------------------------------------------

    def _start(self, work: Awaitable[None]) -> None:
        # Within the context of the unit: its deadline, and the reply to which requests belong.
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Message) -> None:
        answer: Message = {"op": "answer", "unit": self._unit, "call": message["call"]}
        try:
            ask = getattr(self, f"_ask_{message['method']}")
            answer["value"] = await ask(*message["arguments"], **message["named"])
            json.dumps(answer)
        except asyncio.CancelledError:
            raise
        # An estimate ends the function at its first request with an exception that no function catches.
        except BaseException as error:
            self._errors[message["call"]] = error
            is_lost = isinstance(error, BackendError)
            answer["error"] = {"message": str(error), "is_lost": is_lost, "call": message["call"]}
            answer.pop("value", None)
        self.process.send(answer)

    @property
    def _sampler(self) -> Sampler:
        sampler: Sampler = self.arguments["sampler"]
        return sampler

    async def _ask_generate(self, input: Any, /, **parameters: Any) -> Message:
        return self._reply(await self._sampler.generate(input, **parameters))

    async def _ask_choose(self, prompt: str, choices: list[str]) -> Message:
        return self._reply(await self._sampler.choose(prompt, choices))

    async def _ask_open_stream(self, input: Any, /, **parameters: Any) -> int:
        self._streams.append(self._sampler.stream(input, **parameters))
        return len(self._streams) - 1

    async def _ask_next_piece(self, number: int) -> Message:
        piece = await anext(self._streams[number], None)
        return {"piece": piece, "reply": self._reply(self._streams[number].reply) if piece is None else None}

    async def _ask_close_stream(self, number: int) -> None:
        self._streams[number].close()

    async def _ask_score(self, values: Mapping[str, Any]) -> None:
        self.arguments["score"](**values)

    async def _ask_read(self, number: int, name: str) -> Any:
        return getattr(self._objects[number], name)

    async def _ask_method(self, number: int, name: str, arguments: list[Any], named: Mapping[str, Any]) -> Message:
        method = getattr(self._objects[number], name)
        if inspect.iscoroutinefunction(method):
            value = await method(*arguments, **named)
        else:
            # The method of a plain function's endpoint waits for this loop.
            value = await asyncio.to_thread(method, *arguments, **named)
        if hasattr(value, "base_url"):
            return {"remote": self._describe(value)}
        fields = dataclasses.is_dataclass(value) and not isinstance(value, type)
        plain = {"fields": dataclasses.asdict(value)} if fields else value
        if not is_plain(plain):
            raise NoResult(
                f"{name}() cannot be called by a commit's function: it returns {type(value).__name__}, which is no JSON"
            )
        return {"plain": plain}

    def _reply(self, reply: Reply) -> Message:
        """Return a reply as JSON, and keep it: the function may return it."""
        self._replies.append(reply)
        fields = {each.name: getattr(reply, each.name) for each in dataclasses.fields(reply)}
        # JSON has no tuples; they are made again there.
        fields |= {name: list(value) for name, value in fields.items() if isinstance(value, tuple)}
        return {
            "number": len(self._replies) - 1,
            "fields": {name: value for name, value in fields.items() if is_plain(value)},
        }

    # -- what became of it ----------------------------------------------------------------------------------------------

    def _read_result(self, form: Message) -> Any:
        """Return the function's value. Raises what it has raised."""
        if "reply" in form:
            return self._replies[form["reply"]]
        if "fields" in form:
            names = {each.name for each in dataclasses.fields(Reply)}
            return Reply(**{name: value for name, value in with_tuples(form["fields"]).items() if name in names})
        if "value" in form:
            return form["value"]
        if "unusable" in form:
            raise NoResult(form["unusable"])
        raise self._error(form)

    def _error(self, form: Message) -> BaseException:
        if "skipped" in form:
            return pytest.skip.Exception(form["skipped"])
        if "failed" in form:
            return AssertionError(form["failed"])
        if "call" in form:
            return self._errors[form["call"]]
        error: Exception = type(form["raised"], (_RaisedThere,), {})(form["message"])
        error.__cause__ = _Traceback(form["traceback"])
        return error
