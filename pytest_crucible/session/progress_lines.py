"""Lines of progress before a session sends its first request: on the terminal, or those of a worker of xdist."""

from __future__ import annotations

import sys

import pytest

from pytest_crucible.session.redaction import key_redactor


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
