"""Redaction of what a session stores and shows: keys from the environment, the configuration, the command line and Tinker, keys by
their form, and what features find.

Reports and warnings of pytest are redacted, and what it shows apart from them: names of tests, which may hold parameters, and logs
that it writes at once.
"""

from __future__ import annotations

import dataclasses
import json
import linecache
import logging
import os
import re
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from _pytest.junitxml import xml_key

from pytest_crucible.features import register_features
from pytest_crucible.options import redacts_findings
from pytest_crucible.records import ModelCall
from pytest_crucible.records.redaction import hider, redact
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.runs.provenance import configured_tables
from pytest_crucible.session.settings import read_settings

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


class Redactor(Protocol):
    """Redacts what a feature finds in a text, and remembers it: other texts may show it, too."""

    def __call__(self, text: str) -> str: ...

    def found_late(self) -> bool:
        """Return whether something was found after the run began to store and show texts."""

    def learn_changed(self, original: Any, changed: Iterable[Any]) -> None:
        """Learn what the findings in an input have become where it was changed."""


class KeyRedactor:
    """A function that redacts the known keys in a text, everything that looks like a key, and what features find."""

    def __init__(self, keys: Iterable[str], further: Sequence[Redactor] = ()) -> None:
        """`further` are the redactors of features."""
        self._known = set(keys)
        self._hide = hider(self._known)
        self._further = further

    def hide_keys(self, text: str) -> str:
        """Return a text without keys; findings stay. Names, hashes and numbers as text may look like findings."""
        return self._hide(text)

    def __call__(self, text: str) -> str:
        text = self._hide(text)
        # Keys first: a finding may contain one.
        for redactor in self._further:
            text = redactor(text)
        return text

    @property
    def redacts_findings(self) -> bool:
        """True if more than keys is redacted."""
        return bool(self._further)

    def finds_late(self) -> bool:
        """Return whether something was found after the run began to store and show texts."""
        return any(redactor.found_late() for redactor in self._further)

    def redact_cut(self, text: str) -> str:
        """Return a text of pytest's redacted: half of a finding may stand beside an ellipsis, where pytest cut it."""
        return self(remove_cut_words(text) if self._further else text)

    def learn(self, *keys: str) -> None:
        """Redact these keys, too, from now on."""
        if not self._known.issuperset(keys):
            self._known.update(keys)
            self._hide = hider(self._known)

    def learn_sent(self, original: Any, calls: Iterable[ModelCall]) -> None:
        """Find what the findings in an input have become in the texts that a test sent, which it or a model may have made."""
        if self._further:
            sent = [json.loads(call.text) if call.is_json else call.text for call in calls]
            for redactor in self._further:
                redactor.learn_changed(original, sent)


_ELLIPSIS = re.compile(r"(\.{3,})")
_END = re.compile(r"""[\s'"`()\[\]{}<>,;]""")
# Of a number in groups, such as a card's, several words are cut off with the one beside the ellipsis.
_GROUPS = "0123456789 -/+"


def remove_cut_words(text: str) -> str:
    """Return the text without the words that touch an ellipsis, and without the groups of a number beside one.

    >>> remove_cut_words("assert ['write to anna@e...ple.org', 'card 4111 11...'] == f(...)")
    "assert ['write to ...', 'card...'] == f(...)"
    """
    if "..." not in text:
        return text
    # Texts at even places, the ellipses between them at odd ones.
    parts = _ELLIPSIS.split(text)
    last = len(parts) - 1
    for place in range(0, len(parts), 2):
        part = parts[place] if place == 0 else _without_first_word(parts[place])
        parts[place] = part if place == last else _without_last_word(part)
    return "".join(parts)


def _without_first_word(text: str) -> str:
    end = _END.search(text)
    rest = text[end.start() :] if end else ""
    digits = rest[: len(rest) - len(rest.lstrip(_GROUPS))]
    return rest[len(digits) :] if any(map(str.isdigit, digits)) else rest


def _without_last_word(text: str) -> str:
    reversed_rest = _without_first_word(text[::-1])
    return reversed_rest[::-1]


def key_redactor(config: pytest.Config) -> KeyRedactor:
    """Return the session's redactor; the first call also starts redacting reports and warnings.

    Raises pytest.UsageError for a feature's option that cannot be used.
    """
    if _KEYS not in config.stash:
        if redacts_findings(config):
            register_features(config.pluginmanager)
        further = config.hook.pytest_crucible_redactor(config=config)
        config.stash[_KEYS] = KeyRedactor(secrets_in(_secret_sources(config), os.environ), further)
        config.pluginmanager.register(ReportRedactor(config, config.stash[_KEYS]), "crucible-hidden-keys")
        config.pluginmanager.register(ShownRedactor(config, config.stash[_KEYS]), "crucible-shown-redactor")
    return config.stash[_KEYS]


def _secret_sources(config: pytest.Config) -> Mapping[str, Any]:
    """Return everything that may hold or name keys: environment, configuration and command line."""
    return {
        "environment": dict(os.environ),
        "tables": configured_tables(config.rootpath),
        # Adapters may also be named by URIs in pytest's configuration.
        "settings": dataclasses.asdict(read_settings(config)),
        "command": list(config.invocation_params.args),
    }


# -- reports, and what pytest shows apart from them -------------------------------------------------------------------------


class ReportRedactor:
    """A pytest plugin that redacts keys in reports and warnings: a traceback with locals would show them."""

    def __init__(self, config: pytest.Config, hide: KeyRedactor) -> None:
        self._config = config
        self._hide = hide

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        has_text = report.longrepr or report.sections or report.user_properties or hasattr(report, "wasxfail")
        return self._without_keys(report) if has_text else report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        # A passed report is left alone: its `result` holds the collected nodes.
        return self._without_keys(report) if report.longrepr else report

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        warning_message.message = self._hide(str(warning_message.message))
        # pytest shows the line of code that warned, too.
        line = linecache.getline(warning_message.filename, warning_message.lineno)
        if self._hide(line) != line:
            warning_message.line = self._hide(line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Redact the reports that the terminal prints at the end once more: some may show what was found late."""
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        for reports in terminal.stats.values() if terminal is not None and self._hide.finds_late() else ():
            reports[:] = [
                self._without_keys(report) if isinstance(report, pytest.TestReport) else report for report in reports
            ]

    def _without_keys(self, report: Report) -> Report:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        # The id stays: by it a worker of xdist and --lf recognise the test.
        clean = {
            name: value if name == "nodeid" else redact(value, self._hide.redact_cut) for name, value in data.items()
        }
        if clean == data:
            return report
        rebuilt: Report = hook.pytest_report_from_serializable(config=self._config, data=clean)
        return rebuilt


class ShownRedactor:
    """A pytest plugin that redacts names of tests on the terminal and in JUnit files, and log files and live logs.

    The ids of tests themselves stay: xdist, --lf and pytest's cache recognise tests by them.
    """

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
            test.to_xml = partial(lambda whole: whole, element)  # type: ignore[method-assign]

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


# -- names of tests: they are in the run store, pytest's cache, `--durations` and temporary folders, too --------------------


def hide_parameters(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Give items new names whose parameters hold what is redacted: `test_a[anna@example.com]` becomes `test_a[name0]`.

    pytest names parameters without a readable id in this way, by argument and number. Equal in all runs and workers, the names
    are those that xdist, --lf and baselines recognise tests by. `-k` still finds the old ones.
    """
    hide, named = key_redactor(config), [item for item in items if "[" in item.name and hasattr(item, "callspec")]
    texts = {item: _as_written(item.name.partition("[")[2]) for item in named}
    # All first: what one name shows to be a finding, another may hold without it.
    for text in texts.values():
        hide(text)
    for item in named:
        if hide(texts[item]) != texts[item]:
            _rename(item, "-".join(f"{name}{number}" for name, number in item.callspec.indices.items()))


def _as_written(name: str) -> str:
    """Return a name without the escapes that pytest writes for characters beyond ASCII."""
    if not ("\\" in name and name.isascii()):
        return name
    try:
        return name.encode().decode("unicode_escape")
    except UnicodeDecodeError:
        return name


def _rename(item: Any, parameters: str) -> None:
    name, _, _ = item.name.partition("[")
    before, item.name = item.name, f"{name}[{parameters}]"
    item.extra_keyword_matches.add(before)
    nodeid = item.nodeid.removesuffix(before) + item.name
    # From pytest 9.2 on an object; before, a text.
    if hasattr(item, "_nodeid"):
        item._nodeid = nodeid
    else:
        item._id = type(item._id).parse(nodeid)


_KEYS = pytest.StashKey[KeyRedactor]()
