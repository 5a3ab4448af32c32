"""Tools as functions with a journal: what an agent called, with what arguments, and what it got."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeVar

from pytest_crucible.features.agents.tables import agent_tools
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.experiment import BoundUnit

Function = TypeVar("Function", bound=Callable[..., Any])
# Characters of a result in the journal: a longer one is a file, of which the beginning shows what it was.
MOST_RESULT = 1 << 16
_DROPPED = object()
Key = tuple[str, str, str, str, int]
"""Experiment, sample, tool, arguments as JSON, and the how-manieth such call of a unit it is."""


@dataclass(eq=False)
class Recordings:
    """Results of tools that are replayed: the first unit that calls one records it, and the others wait for it."""

    _results: dict[Key, Future[Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, key: Key) -> tuple[Future[Any], bool]:
        """Return the result of a call, perhaps to come, and whether the caller has to record it."""
        with self._lock:
            is_first = key not in self._results
            return self._results.setdefault(key, Future()), is_first

    def drop(self, key: Key) -> None:
        """Forget a call that was cut off: another unit records it."""
        with self._lock:
            future = self._results.pop(key)
        future.set_result(_DROPPED)


@dataclass(eq=False)
class Journal:
    """The tools that one unit has called. Callable from any thread."""

    bound: BoundUnit
    recordings: Recordings
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tool(self, function: Function, name: str, *, replay: bool) -> Function:
        """Return a function with a journal; with `replay`, equal calls of other units get the same result."""
        tool = _Tool(self, function, inspect.signature(function), name, replay)

        async def call_async(*arguments: Any, **named: Any) -> Any:
            return await tool.call_async(*arguments, **named)

        def call(*arguments: Any, **named: Any) -> Any:
            return tool.call(*arguments, **named)

        wrapper: Any = call_async if inspect.iscoroutinefunction(function) else call
        of_same_signature: Function = wrapper
        functools.update_wrapper(wrapper, function)
        return of_same_signature

    def add_text(self, text: str) -> None:
        """Record a text that a tool returns to the agent."""
        self.add(
            {
                "name": "",
                "arguments": None,
                "result": text,
                "error": "",
                "is_replayed": False,
                "begun": time.time(),
                "seconds": 0.0,
            }
        )

    def add(self, row: dict[str, Any]) -> None:
        """Add a row to the journal."""
        with self._lock:
            rows = self.bound.outcome.feature_rows.setdefault(agent_tools.name, [])
            rows.append({"number": len(rows) + 1, **row})

    def key(self, name: str, arguments: Mapping[str, Any]) -> Key:
        """Return what a call is replayed by. Raises SpecError for an argument that JSON has no form for."""
        try:
            text = json.dumps(arguments, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise SpecError(
                f"tool {name!r} has replay=True and an argument that JSON has no form for ({error}): equal calls could not be "
                "recognised; leave out replay, or pass plain values"
            ) from None
        with self._lock:
            number = self._counts[name, text] = self._counts.get((name, text), 0) + 1
        return self.bound.experiment.plan.nodeid, self.bound.sample.id, name, text, number


@dataclass(frozen=True, eq=False)
class _Tool:
    """A function, and how its calls are recorded."""

    journal: Journal
    function: Callable[..., Any]
    signature: inspect.Signature
    name: str
    replays: bool

    def call(self, *arguments: Any, **named: Any) -> Any:
        """Return the function's result, or that of an equal call before it. Raises what the function raises."""
        with self._record(arguments, named) as row:
            if not self.replays:
                row["result"] = result = self.function(*arguments, **named)
                return result
            key = self.journal.key(self.name, self._by_name(arguments, named))
            recorded: Any = _DROPPED
            while recorded is _DROPPED:
                future, is_first = self.journal.recordings.claim(key)
                if is_first:
                    with self._keeping(key, future):
                        future.set_result(_copy(self.name, self.function(*arguments, **named)))
                row["is_replayed"] = not is_first
                recorded = future.result()
            row["result"] = result = copy.deepcopy(recorded)
            return result

    async def call_async(self, *arguments: Any, **named: Any) -> Any:
        """Return the awaited result, or that of an equal call before it. Raises what the function raises."""
        with self._record(arguments, named) as row:
            if not self.replays:
                row["result"] = result = await self.function(*arguments, **named)
                return result
            key = self.journal.key(self.name, self._by_name(arguments, named))
            recorded: Any = _DROPPED
            while recorded is _DROPPED:
                future, is_first = self.journal.recordings.claim(key)
                if is_first:
                    with self._keeping(key, future):
                        future.set_result(_copy(self.name, await self.function(*arguments, **named)))
                row["is_replayed"] = not is_first
                # Shielded, for a cancelled unit must not cancel the recording of another.
                recorded = await asyncio.shield(asyncio.wrap_future(future))
            row["result"] = result = copy.deepcopy(recorded)
            return result

    @contextmanager
    def _record(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Add a row about the call to the journal when it ends."""
        # At once: the function may change them.
        sent = plain(self._by_name(arguments, named))
        row: dict[str, Any] = {"arguments": sent, "result": None, "is_replayed": False}
        begun, start, error_text = time.time(), time.monotonic(), ""
        try:
            yield row
        except BaseException as error:
            error_text = f"{type(error).__name__}: {error}"
            raise
        finally:
            row |= {"result": plain(row["result"]), "error": error_text}
            self.journal.add({"name": self.name, **row, "begun": begun, "seconds": time.monotonic() - start})

    def _by_name(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*arguments, **named)
        except TypeError:
            # The function itself raises it, for the agent to see.
            return {"args": list(arguments), **named}
        bound.apply_defaults()
        return dict(bound.arguments)

    @contextmanager
    def _keeping(self, key: Key, future: Future[Any]) -> Iterator[None]:
        """Keep an exception of the function for other units, which meet it, too; not one that ends this unit."""
        try:
            yield
        except SpecError:
            self.journal.recordings.drop(key)
            raise
        except Exception as error:
            future.set_exception(error)
            raise
        except BaseException:
            self.journal.recordings.drop(key)
            raise


def _copy(name: str, result: Any) -> Any:
    try:
        return copy.deepcopy(result)
    except Exception as error:
        raise SpecError(
            f"tool {name!r} has replay=True and returned {type(result).__name__}, which cannot be copied ({error}): return plain "
            "values, or leave out replay"
        ) from None


def plain(value: Any) -> Any:
    """Return a value as JSON has it: what it has no form for as its repr, and a long text cut.

    >>> plain({"a": {1}, "b": (1, 2)})
    {'a': '{1}', 'b': [1, 2]}
    """
    try:
        text = json.dumps(value, default=repr, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        value, text = repr(value), ""
        text = json.dumps(value)
    if len(text) > MOST_RESULT:
        return f"{text[:MOST_RESULT]}... ({len(text) - MOST_RESULT} characters left out)"
    return json.loads(text)
