"""Redacts secret keys in reports and warnings: keys from the environment, the configuration, the command line and Tinker."""

from __future__ import annotations

import dataclasses
import linecache
import os
import warnings
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.runs.provenance import configured_tables
from pytest_crucible.session.key_redactor import KeyRedactor
from pytest_crucible.session.redact_shown import ShownRedactor
from pytest_crucible.session.run_redaction import run_redaction
from pytest_crucible.session.settings import read_settings

if TYPE_CHECKING:
    from pytest_crucible.adapters.findings_redactor import FindingsRedactor

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def key_redactor(config: pytest.Config) -> KeyRedactor:
    """Return the session's redactor; the first call also starts redacting reports and warnings.

    Raises pytest.UsageError for a guard that cannot redact.
    """
    if _KEYS not in config.stash:
        findings = _findings_redactor(config)
        config.stash[_KEYS] = KeyRedactor(secrets_in(_secret_sources(config), os.environ), findings)
        config.pluginmanager.register(ReportRedactor(config, config.stash[_KEYS]), "crucible-hidden-keys")
        config.pluginmanager.register(ShownRedactor(config, config.stash[_KEYS]), "crucible-shown-redactor")
    return config.stash[_KEYS]


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


def _findings_redactor(config: pytest.Config) -> FindingsRedactor | None:
    """Return the function that redacts the findings of the guard of --crucible-redact; None without the option."""
    name = read_settings(config).redact
    if not name:
        return None
    from pytest_crucible.adapters.guards import Guards

    try:
        return Guards(config.rootpath, redaction=lambda: run_redaction(config)).redactor(name)
    except SpecError as error:
        raise pytest.UsageError(f"--crucible-redact={name}: {error}") from None


def _secret_sources(config: pytest.Config) -> Mapping[str, Any]:
    """Return everything that may hold or name keys: environment, configuration and command line."""
    return {
        "environment": dict(os.environ),
        "tables": configured_tables(config.rootpath),
        # Adapters may also be named by URIs in pytest's configuration.
        "settings": dataclasses.asdict(read_settings(config)),
        "command": list(config.invocation_params.args),
    }


_KEYS = pytest.StashKey[KeyRedactor]()
