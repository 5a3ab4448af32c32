"""Messages for the end of a session, and the workers of pytest-xdist that send theirs to the controller.

The controller interrupts its workers, waits for their last rows, and merges their messages.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import pytest

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.session.failures import ExpectedFailure
from pytest_crucible.session.interruptions import raise_in_main_thread

# A worker cancels its requests for up to 5 s, and then stores what it has.
WORKERS_END_S = 10.0
_INPUT = "crucible_channel"
_STORED = "stored"


@dataclass
class Messages:
    """Lines and errors to show at the end; a worker sends them with its reports, and the controller merges them."""

    problems: list[str]
    """Errors of the configuration: no request is sent."""
    failures: dict[str, None] = field(default_factory=dict)
    """Errors of the run store during sampling, each once although several workers report it."""
    lines: list[str] = field(default_factory=list)
    complaints: dict[str, None] = field(default_factory=dict)
    """Sentences on listeners that raised, each once although several workers report it."""
    items: dict[str, list[str]] = field(default_factory=dict)
    """Nodeids of the items that ran, by the experiment that they belong to."""

    expected_failures: dict[str, ExpectedFailure] = field(default_factory=dict)
    """Markers `xfail`, by the experiment that they are on."""

    begun: bool = False
    """Whether an experiment is in the run store. Without one there is no run to conclude."""
    expected_verdicts: int = 0
    """Verdicts that are counted as tests already."""
    further_reports: int = 0
    """Test reports of features, which are counted as tests, too."""

    @property
    def errors(self) -> list[str]:
        """Errors that keep the session from sending requests, or further requests."""
        return [*self.problems, *self.failures]

    def add_item(self, owner: str, item: str) -> None:
        self.items.setdefault(owner, []).append(item)

    def add_failures(self, failures: Iterable[object]) -> None:
        self.failures |= dict.fromkeys(map(str, failures))

    def add_complaints(self, complaints: Iterable[str]) -> None:
        self.complaints |= dict.fromkeys(complaints)

    def pop_message(self) -> dict[str, Any]:
        """Return everything as a report carries it to the controller; lines are sent only once."""
        # Lines are appended by the controller, errors are merged by value: only lines could appear twice.
        lines, self.lines = self.lines, []
        return {
            "begun": self.begun,
            "problems": self.problems,
            "failures": list(self.failures),
            "lines": lines,
            "complaints": list(self.complaints),
            "expected_failures": self.expected_failures,
        }

    def merge(self, message: Mapping[str, Any]) -> None:
        """Add the message of a worker's report."""
        self.begun |= message["begun"]
        self.problems = message["problems"] or self.problems
        self.lines += message["lines"]
        self.add_failures(message["failures"])
        self.add_complaints(message["complaints"])
        self.expected_failures |= message["expected_failures"]


class WorkerLink:
    """The controller's end of a channel to one worker."""

    def __init__(self, node: Any) -> None:
        self.announced: dict[str, Any] | None = None
        self._ended = threading.Event()
        self._channel = node.workerinput[_INPUT] = node.gateway.newchannel()
        self._channel.setcallback(self._receive, endmarker=_STORED)

    def interrupt(self, number: int) -> None:
        """Send a signal to the worker, unless it has stored its last rows."""
        if self.announced is not None and not self._ended.is_set():
            # The worker may have died since.
            with contextlib.suppress(OSError):
                self._channel.send(number)

    def wait_until_stored(self, timeout: float) -> None:
        """Wait for the last rows of a worker that has experiments."""
        if self.announced is not None:
            self._ended.wait(timeout)

    def _receive(self, message: Any) -> None:
        # Called by execnet's receiver thread; also when the channel is closed, because the worker has died.
        if message == _STORED:
            self._ended.set()
        else:
            self.announced = message


def announce_experiments(config: pytest.Config, message: dict[str, Any]) -> None:
    """Announce the experiments of this worker to the controller, and obey the controller's signals from now on."""
    channel = config.workerinput[_INPUT]  # type: ignore[attr-defined]  # xdist's
    channel.setcallback(raise_in_main_thread)
    with contextlib.suppress(OSError):
        channel.send(message)


def announce_stored(config: pytest.Config) -> None:
    """Tell the controller that the last rows of this worker are stored."""
    with contextlib.suppress(OSError):
        config.workerinput[_INPUT].send(_STORED)  # type: ignore[attr-defined]  # xdist's


class WorkerReports:
    """Merges the reports of workers into the messages of the controller's session."""

    def __init__(self, config: pytest.Config, messages: Messages) -> None:
        self._config = config
        self._messages = messages
        self._links: list[WorkerLink] = []
        self.places: dict[str, tuple[str, pytest.TestReport]] = {}
        """Nodeid of each experiment -> the worker that runs it, and its latest report."""

    def add_worker(self, link: WorkerLink) -> None:
        """Record a worker's announcement. From now on, signals are passed on to it."""
        announced = link.announced or {}
        self._links.append(link)
        self._messages.begun |= announced["begun"]
        # Every worker plans all experiments, so each announces the same numbers.
        self._messages.expected_verdicts = announced["verdicts"]
        self._messages.further_reports = announced["reports"]

    def receive(self, report: Any) -> None:
        """Record the message of a report: the experiment that the worker started, or why it sends no requests."""
        message = report.crucible
        # The items of an ordinary parametrised test go to several workers, and each sends the line.
        is_first = message["owner"] not in self.places
        self.places[message["owner"]] = report.node.gateway.id, report
        self._messages.add_item(message["owner"], message["item"])
        self._messages.merge(message)
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if is_first and message["line"] and terminal is not None and self._config.get_verbosity() >= 0:
            terminal.ensure_newline()
            terminal.write_line(message["line"])

    def interrupt(self, number: int) -> None:
        """Interrupt all workers, and wait until their last rows are stored; KeyboardInterrupt ends the wait."""
        until = time.monotonic() + WORKERS_END_S
        for link in self._links:
            link.interrupt(number)
        with contextlib.suppress(KeyboardInterrupt):
            for link in self._links:
                link.wait_until_stored(max(0.0, until - time.monotonic()))
