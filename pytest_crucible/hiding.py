"""No key is shown or stored: those of the environment, of adapters, of the command line and of Tinker are taken out of texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

import pytest

from pytest_crucible.manifest import hideable
from pytest_crucible.redaction import cleaned, hider, secrets_in

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


class Keys:
    """The keys that are known, as a function that takes them out of a text, and all that looks like one."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self._hide = hider(self._known)

    def __call__(self, text: str) -> str:
        return self._hide(text)

    def learn(self, *keys: str) -> None:
        """More of them, from now on."""
        if not self._known.issuperset(keys):
            self._known.update(keys)
            self._hide = hider(self._known)


def hide_keys(config: pytest.Config) -> Keys:
    """The session's keys. From the first call on they are taken out of reports and warnings."""
    if _KEYS not in config.stash:
        config.stash[_KEYS] = Keys(secrets_in(hideable(config)))
        config.pluginmanager.register(HiddenKeys(config, config.stash[_KEYS]), "crucible-hidden-keys")
    return config.stash[_KEYS]


class HiddenKeys:
    """A plugin that takes keys out of reports and warnings: a traceback with locals would show them."""

    def __init__(self, config: pytest.Config, hide: Callable[[str], str]) -> None:
        self._config = config
        self._hide = hide

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        said = report.longrepr or report.sections or report.user_properties or hasattr(report, "wasxfail")
        return self._without_keys(report) if said else report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        return self._without_keys(report) if report.longrepr else report  # one that passed has what was collected

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        warning_message.message = self._hide(str(warning_message.message))

    def _without_keys(self, report: Report) -> Report:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        clean = cleaned(data, self._hide)
        if clean == data:
            return report
        rebuilt: Report = hook.pytest_report_from_serializable(config=self._config, data=clean)
        return rebuilt


_KEYS = pytest.StashKey[Keys]()
