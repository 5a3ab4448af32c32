"""Receive announcements, messages and last errors from the workers of pytest-xdist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_crucible.session.messages import Messages
from pytest_crucible.session.worker_links import WorkerLink, interrupt_workers


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

    def add_failures(self, failures: Sequence[str]) -> None:
        """Record the errors of a worker that could not store its last rows."""
        self._messages.add_failures(failures)

    def interrupt(self, number: int) -> None:
        """Pass a signal on to all workers, and wait until their last rows are stored."""
        interrupt_workers(self._links, number)
