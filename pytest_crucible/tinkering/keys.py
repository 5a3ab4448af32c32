"""API keys: whether there is one for the hosted service, and that none is ever shown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_crucible.errors import SpecError

KEY_STARTS = ("tml-", "eyJ")
"""Of an API key, and of a token that stands for one."""
HIDDEN = "(key hidden)"
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+")


def hidden(text: str, secrets: set[str]) -> str:
    """A text without these keys, and without tokens.

    >>> hidden("x-api-key: tml-1", {"tml-1"})
    'x-api-key: (key hidden)'
    """
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return _TOKEN.sub(HIDDEN, text)


def hosted_secrets(sdk: Any) -> set[str]:
    """The keys that the SDK would send to the hosted service. Raises SpecError when there is none, or none that can be right."""
    key, command = os.environ.get("TINKER_API_KEY", ""), os.environ.get("TINKER_CREDENTIAL_CMD")
    if key and not key.startswith(KEY_STARTS) and not command:
        raise SpecError("TINKER_API_KEY is no key of Tinker: it must start with 'tml-'")
    auth = getattr(sdk, "auth", None)
    stored = auth.get_tinker_token() if auth is not None and not key else None
    if not (key or command or stored):
        raise SpecError(
            "there is no key for the hosted Tinker service: set TINKER_API_KEY, or leave crucible_tinker = local"
        )
    return {one for one in (key, stored) if one}


class HiddenKeys:
    """A plugin that takes keys out of the reports of tests: a traceback with locals would show them."""

    def __init__(self, config: pytest.Config, hide: Callable[[str], str]) -> None:
        self._config = config
        self._hide = hide

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if not (report.longrepr or report.sections):
            return report
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        clean = _clean(data, self._hide)
        if clean == data:
            return report
        rebuilt: pytest.TestReport = hook.pytest_report_from_serializable(config=self._config, data=clean)
        return rebuilt


def _clean(data: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, dict):
        return {name: _clean(value, hide) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(_clean(one, hide) for one in data)
    return data
