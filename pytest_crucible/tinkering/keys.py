"""API keys: whether there is one for the hosted service, and that none is ever shown."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import pytest

from pytest_crucible.errors import SpecError
from pytest_crucible.tinkering.places import KEY, KEY_STARTS

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

HIDDEN = "(key hidden)"
_ANY = re.compile(r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+|\btml-[\w-]{16,}")
"""What looks like a token or a key, whosever it is."""


def hidden(text: str, secrets: set[str]) -> str:
    """A text without these keys, and without what looks like one.

    >>> hidden("x-api-key: tml-1", {"tml-1"})
    'x-api-key: (key hidden)'
    """
    for secret in sorted(secrets, key=len, reverse=True):  # one may begin another
        text = text.replace(secret, HIDDEN)
    return _ANY.sub(HIDDEN, text)


def hosted_key(sdk: Any) -> tuple[str | None, set[str]]:
    """The key for the hosted service, None where the SDK has to find one; and all that the SDK may send.

    Raises SpecError when there is none, or none that can be right.
    """
    key, command = os.environ.get(KEY, ""), os.environ.get("TINKER_CREDENTIAL_CMD")
    if key and not key.startswith(KEY_STARTS) and not command:
        raise SpecError(f"{KEY} is no key of Tinker: it must start with 'tml-'")
    auth = getattr(sdk, "auth", None)
    stored = auth.get_tinker_token() if auth is not None and not key else None
    if not (key or command or stored):
        raise SpecError(f"there is no key for the hosted Tinker service: set {KEY}, or leave crucible_tinker = local")
    return (key if key.startswith(KEY_STARTS) else None), {one for one in (key, stored) if one}


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
        clean = _clean(data, self._hide)
        if clean == data:
            return report
        rebuilt: Report = hook.pytest_report_from_serializable(config=self._config, data=clean)
        return rebuilt


def _clean(data: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, dict):
        return {name: _clean(value, hide) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(_clean(one, hide) for one in data)
    return data
