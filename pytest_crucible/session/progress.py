"""The live progress line on pytest's terminal, and lines in a log without one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from pytest_crucible.backends.context import BackendContext
from pytest_crucible.report.plan_lines import ProgressLine
from pytest_crucible.sample.engine import Progress
from pytest_crucible.session.progress_log import ProgressLog

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
