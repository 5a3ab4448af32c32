"""The live progress line on pytest's terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from pytest_crucible.report.progress import ProgressLine
from pytest_crucible.sample.engine import Progress

Show = Callable[[Progress | None], None]


def progress_display(config: pytest.Config, nodeid: str, waits_for: Callable[[], str]) -> Show:
    """Return a function that shows progress, or the reason for a wait, on a terminal; None clears the line.

    Output capturing is suspended only while the line is written.
    """
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput") or not terminal.isatty or config.get_verbosity() < 0:
        return lambda _: None
    line = ProgressLine(
        _writer(config, terminal), width=terminal._tw.fullwidth, column=terminal._tw.width_of_current_line
    )
    name = nodeid.partition("::")[2]

    def show(progress: Progress | None) -> None:
        if progress is None:
            line.clear()
        else:
            line.show(name, progress.done, progress.total, progress.lost, waits_for())

    return show


def _writer(config: pytest.Config, terminal: pytest.TerminalReporter) -> Callable[[str], None]:
    capture = config.pluginmanager.get_plugin("capturemanager")

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            # Not through the writer, which would count the text as part of pytest's own line.
            terminal._tw._file.write(text)
            terminal._tw._file.flush()

    return write
