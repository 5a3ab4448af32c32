"""Redacts what pytest shows apart from reports: names of tests, which may hold parameters, and logs that it writes at once.

The ids of tests themselves stay: xdist, --lf and pytest's cache recognise tests by them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from _pytest.junitxml import xml_key

from pytest_crucible.session.key_redactor import KeyRedactor


class ShownRedactor:
    """A pytest plugin that redacts names of tests on the terminal and in JUnit files, and log files and live logs."""

    def __init__(self, config: pytest.Config, hide: KeyRedactor) -> None:
        self._config = config
        self._hide = hide
        self._relative_id: Callable[[Any], Any] = config.cwd_relative_nodeid
        # The terminal passes each id that it shows through this function.
        config.cwd_relative_nodeid = self._shown_id  # type: ignore[method-assign]
        plugin = config.pluginmanager.get_plugin("logging-plugin")
        for name in ("log_file_handler", "log_cli_handler"):
            handler = getattr(plugin, name, None)
            if handler is not None:
                handler.setFormatter(_RedactingFormatter(handler.formatter, hide))

    def _shown_id(self, nodeid: Any) -> Any:
        """Return the id as the terminal shows it: a text, from pytest 9.2 on a NodeId."""
        relative = self._relative_id(nodeid)
        text = str(relative)
        redacted = self._hide(text)
        if redacted == text:
            return relative
        return redacted if isinstance(relative, str) else type(relative).parse(redacted)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Redact the JUnit file, which pytest writes afterwards."""
        xml = self._config.stash.get(xml_key, None)
        for test in [] if xml is None else xml.node_reporters_ordered:
            element = test.to_xml()
            for part in element.iter():
                part.attrib.update({name: self._hide(value) for name, value in part.attrib.items()})
                part.text = part.text and self._hide(part.text)
            test.to_xml = partial(_same, element)  # type: ignore[method-assign]

    def pytest_unconfigure(self) -> None:
        """Redact the log file once more, after its last line: what its first lines show may have been found since."""
        # Under xdist all workers write to one file, and the controller ends last.
        if hasattr(self._config, "workerinput") or not self._hide.finds_late():
            return
        plugin = self._config.pluginmanager.get_plugin("logging-plugin")
        file = Path(getattr(getattr(plugin, "log_file_handler", None), "baseFilename", os.devnull))
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
            redacted = "".join(map(self._hide, text.splitlines(keepends=True)))
            if redacted != text:
                file.write_text(redacted, encoding="utf-8", errors="surrogateescape")


class _RedactingFormatter(logging.Formatter):
    """Formats as another formatter, and redacts the result: the records themselves are those that `caplog` has."""

    def __init__(self, formatter: logging.Formatter | None, hide: Callable[[str], str]) -> None:
        super().__init__()
        self._formatter = formatter or logging.Formatter()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(self._formatter.format(record))


def _same(element: Element) -> Element:
    return element
