"""The process of a commit: it collects the tests of a worktree with pytest, and calls their functions for units of another process.

python child.py < requests > replies     started by `process`

Only Python's own library and the pytest of the commit's environment are imported: that environment may have another version of
this package, or none. Messages are JSON after their length; functions run in threads, or as tasks if they are async.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import inspect
import json
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pytest_crucible.features.commits import child_imports, child_values
    from pytest_crucible.features.commits.child_values import Unit
else:

    def _load(name: str) -> Any:
        """Return a module beside this one, although no package is imported."""
        spec = importlib.util.spec_from_file_location(f"crucible_{name}", Path(__file__).with_name(f"{name}.py"))
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    child_imports, child_values = _load("child_imports"), _load("child_values")

# As in `process`, which this program cannot import.
LENGTH = struct.Struct(">I")


class Channel:
    """The two ends of the pipe to the other process."""

    def __init__(self) -> None:
        # What the suite reads and prints must not mix with messages.
        self._requests, self._replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Send a message. Raises TypeError for one that JSON cannot hold."""
        data = json.dumps(message).encode()
        with self._lock:
            self._replies.write(LENGTH.pack(len(data)) + data)
            self._replies.flush()

    def receive(self) -> Any:
        """Return the next message; None at the end."""
        head = self._requests.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return None
        return json.loads(self._requests.read(LENGTH.unpack(head)[0]))


class Serve:
    """A plugin of pytest that serves calls when the tests are collected, and never returns."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._errors, self._units = channel, dict[str, str](), dict[int, Any]()

    def pytest_collectreport(self, report: Any) -> None:
        """Remember why a file cannot be imported."""
        if report.failed:
            self._errors[report.nodeid] = str(report.longrepr)

    # A wrapper runs before all others: this package's own would open a session, and options would deselect tests.
    def pytest_collection_modifyitems(self, items: list[Any]) -> Iterator[None]:
        """Serve calls of the tests until the other process ends."""
        self._tests = {item.nodeid: item for item in items if hasattr(item, "obj")}
        facts = {name: self._facts(item) for name, item in self._tests.items()}
        self._channel.send(op="ready", tests=facts, errors=self._errors, python=sys.version.split()[0])
        asyncio.run(self._serve())
        end_group()
        yield

    def _facts(self, item: Any) -> dict[str, Any]:
        function = inspect.unwrap(getattr(item, "function", item.obj))
        parameters = inspect.signature(item.obj).parameters.values()
        takes = [each.name for each in parameters if each.default is each.empty and each.kind in (1, 3)]
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):
            source = ""
        is_async = inspect.iscoroutinefunction(item.obj)
        return {"takes": takes, "is_async": is_async, "source": hashlib.sha256(source.encode()).hexdigest()}

    async def _serve(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def read() -> None:
            while (message := self._channel.receive()) is not None:
                # Answers go to threads and tasks at once: a task may block the loop while it waits for them.
                if message["op"] == "answer":
                    unit = self._units.get(message["unit"])
                    if unit is not None:
                        unit.answer(message)
                else:
                    loop.call_soon_threadsafe(self._handle, message)
            end_group()

        threading.Thread(target=read, daemon=True).start()
        await ended.wait()

    def _handle(self, message: Mapping[str, Any]) -> None:
        if message["op"] == "cancel":
            unit = self._units.get(message["unit"])
            if unit is not None:
                unit.close()
                if unit.task is not None:
                    unit.task.cancel()
            return
        unit = self._units[message["unit"]] = child_values.Unit(message["unit"], self._channel)
        item = self._tests[message["test"]]
        is_async = inspect.iscoroutinefunction(item.obj)
        arguments = {name: child_values.decode(unit, form, is_async) for name, form in message["arguments"].items()}
        if is_async:
            unit.task = asyncio.get_running_loop().create_task(self._run_async(unit, item.obj, arguments))
        else:
            threading.Thread(target=self._run, args=(unit, item.obj, arguments), daemon=True).start()

    def _run(self, unit: Unit, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        try:
            form = child_values.returned_form(unit, function(**arguments))
        except BaseException as error:
            form = child_values.raised_form(error)
        self._finish(unit, form)

    async def _run_async(self, unit: Unit, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        try:
            form = child_values.returned_form(unit, await function(**arguments))
        except BaseException as error:
            form = child_values.raised_form(error)
        self._finish(unit, form)

    def _finish(self, unit: Unit, form: Mapping[str, Any]) -> None:
        self._units.pop(unit.number, None)
        with contextlib.suppress(OSError):
            self._channel.send(op="done", unit=unit.number, form=form)


def end_group() -> NoReturn:
    """End this process at once, with the programs that it has started."""
    sys.stderr.flush()
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def main() -> None:
    channel = Channel()
    settings = channel.receive()
    child_imports.redirect_imports(settings["trees"], settings["worktree"], settings["folders"])
    if importlib.util.find_spec("pytest") is None:
        sys.exit("its environment has no pytest: name pytest and pytest-crucible among its dependencies")
    import pytest

    # Where plugins are not loaded by themselves, the option is unknown.
    has_xdist = importlib.util.find_spec("xdist") and not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    options = ["-n0"] if has_xdist else []
    pytest.hookimpl(hookwrapper=True, tryfirst=True)(Serve.pytest_collection_modifyitems)
    status = pytest.main([*settings["arguments"], *options, *settings["files"]], plugins=[Serve(channel)])
    channel.send(op="failed", status=int(status))


if __name__ == "__main__":
    main()
