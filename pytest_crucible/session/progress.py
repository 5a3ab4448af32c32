"""Progress on the terminal: a live line, lines in a log without a terminal, and lines before the first request."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

import pytest

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.report.plan_lines import ProgressLine, log_line
from pytest_crucible.sample.engine import Progress
from pytest_crucible.session.redaction import key_redactor

Show = Callable[[Progress | None], None]


def progress_display(config: pytest.Config, nodeid: str, shared: BackendContext) -> Show:
    """Return a function that shows progress, or the reason for a wait; None clears the line.

    Output capturing is suspended only while a line is written.
    """
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput") or config.get_verbosity() < 0:
        return lambda _: None
    name, write = nodeid.partition("::")[2], _writer(config, terminal)
    if not terminal.isatty:
        log = ProgressLog(lambda line: write(f"\ncrucible: {line}\n"), name, shared)
        return lambda progress: None if progress is None else log.show(progress)
    line = ProgressLine(write, width=terminal._tw.fullwidth, column=terminal._tw.width_of_current_line)

    def show(progress: Progress | None) -> None:
        if progress is None:
            line.clear()
        else:
            line.show(name, progress.done, progress.total, progress.lost, shared.waits_for(time.monotonic()))

    return show


def _writer(config: pytest.Config, terminal: pytest.TerminalReporter) -> Callable[[str], None]:
    capture = config.pluginmanager.get_plugin("capturemanager")

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            # Not through the writer, which would count the text as part of pytest's own line.
            terminal._tw._file.write(text)
            terminal._tw._file.flush()

    return write


def write_in_item(config: pytest.Config, line: str) -> None:
    """Write a line of its own while pytest runs an item, whose output it captures."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        TerminalProgress(config).write(line)


LOG_EVERY_S = 20.0


class ProgressLog:
    """Writes a line for the progress, at most one each LOG_EVERY_S."""

    def __init__(self, write: Callable[[str], None], name: str, shared: BackendContext) -> None:
        self._write = write
        self._name = name
        self._shared = shared
        self._started = self._written = time.monotonic()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._written >= LOG_EVERY_S:
            self._written = now
            self._write(self._line(progress, now))

    def _line(self, progress: Progress, now: float) -> str:
        load = self._shared.limiters.load()
        counts = f"{self._name}  {progress.done:,}/{progress.total:,}" + (
            f"  {progress.lost:,} lost" if progress.lost else ""
        )
        left = (progress.total - progress.done) / progress.done * (now - self._started) if progress.done else None
        waits_for = self._shared.waits_for(now) or (
            f"waiting for the server's rate: {load.cause}" if load.cause else ""
        )
        return log_line(
            counts, refused=load.refused_share, waiting=load.waiting_share, waits_for=waits_for, seconds_left=left
        )


class TerminalProgress:
    """Writes on pytest's terminal. A worker of xdist has none and writes to stderr, which it shares with its controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.is_worker = hasattr(config, "workerinput")
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._terminal: pytest.TerminalReporter | None = None if self.is_worker else reporter
        self._hide = key_redactor(config)
        self.verbosity: int = config.get_verbosity()
        self._has_line = False

    def write(self, line: str) -> None:
        """Write a line of its own, at any position of the cursor."""
        if self.verbosity < 0:
            return
        line = self._hide(line)
        if self._terminal is None:
            sys.stderr.write(f"crucible: {line}\n")
            sys.stderr.flush()
            return
        if self.is_watched:
            # pytest shows "collecting ..." here and writes it again after this line.
            self._terminal.rewrite("", erase=True)
            self._terminal.rewrite("")
        elif self._terminal._tw.width_of_current_line:
            self._terminal._tw.line()
        self._terminal.write_line(f"crucible: {line}")

    @property
    def is_watched(self) -> bool:
        return bool(self._terminal is not None and self._terminal.isatty and self.verbosity >= 0)

    def overwrite(self, text: str) -> None:
        """Replace the line of progress on a terminal; with an empty text, clear it."""
        if self._terminal is not None and self.is_watched and (text or self._has_line):
            line = f"crucible: {text}" if text else ""
            width = self._terminal._tw.fullwidth - 1
            self._terminal._tw._file.write(f"\r{line[:width]:<{width}}\r")
            self._terminal._tw._file.flush()
            self._has_line = bool(text)
