"""The table `[notify]`, and messages to its URLs through apprise."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest
from pytest_crucible.telemetry.notice_urls import public_host

ENDINGS = ("ended", "missed", "broken")
# A service that does not answer must not keep pytest from ending.
TIMEOUT_S = 30.0
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """The destinations of messages: each is the name of an environment variable with a URL."""

    endings: Mapping[str, str] = field(default_factory=dict)
    """`ended`, `missed` or `broken` -> the variable."""
    budget_share: float = 1.0
    budget_to: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (*self.endings.values(), self.budget_to))))


@dataclass(frozen=True, slots=True)
class Notice:
    """One message to one destination."""

    variable: str
    title: str
    body: str


def read_notify_settings(table: Mapping[str, Any]) -> NotifySettings:
    """Return the settings of the table `[notify]`. Raises SpecError, which shows no URL."""
    known = (*ENDINGS, "budget")
    for name in table:
        if name not in known:
            hint = suggest(name, known, always=f"it takes {', '.join(known)}")
            raise SpecError(f"[notify] has {name!r}, which is not one of its settings: {hint}")
    endings = {name: _read_variable(name, table[name]) for name in ENDINGS if name in table}
    if "budget" not in table:
        return NotifySettings(endings)
    return NotifySettings(endings, *_read_budget(table["budget"]))


def _read_budget(value: Any) -> tuple[float, str]:
    share = value.get("at") if isinstance(value, dict) and set(value) == {"at", "to"} else None
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
        raise SpecError('[notify] has an invalid budget: write for example budget = { at = 0.8, to = "$SLACK_URL" }')
    return float(share), _read_variable("budget", value["to"])


def _read_variable(name: str, value: Any) -> str:
    match = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        # The value is not shown: it may be the URL.
        raise SpecError(
            f"[notify] has {name} without a variable, and URLs are secrets: put the URL into the environment, and write for "
            f'example {name} = "$SLACK_URL"'
        )
    return match[1] or match[2]


def send_notices(notices: Sequence[Notice], environment: Mapping[str, str]) -> list[str]:
    """Send each notice once to each URL; return a sentence for each that was not sent."""
    failures = [_unset(name) for name in dict.fromkeys(n.variable for n in notices) if not environment.get(name)]
    urls = {environment[notice.variable]: notice for notice in reversed(notices) if environment.get(notice.variable)}
    messages = [{"url": url, "title": notice.title, "body": notice.body} for url, notice in urls.items()]
    reasons = _deliver(messages) if messages else []
    return failures + [
        _not_sent(notice.variable, reason, public_host(url))
        for (url, notice), reason in zip(urls.items(), reasons, strict=True)
        if reason
    ]


def _deliver(messages: list[dict[str, str]]) -> list[str]:
    command = [sys.executable, "-m", "pytest_crucible.telemetry.deliver"]
    try:
        # Neither on the command line, which every user of the machine may list, nor in a file.
        done = subprocess.run(command, input=json.dumps(messages), capture_output=True, text=True, timeout=TIMEOUT_S)
        reasons: list[str] = json.loads(done.stdout.splitlines()[-1])
        return reasons
    except subprocess.TimeoutExpired:
        return [f"no answer within {TIMEOUT_S:g} s" for _ in messages]
    except (OSError, ValueError, IndexError):
        return ["apprise failed" for _ in messages]


def _unset(variable: str) -> str:
    return _not_sent(variable, "the variable is not set")


def _not_sent(variable: str, reason: str, host: str = "") -> str:
    place = f" ({host})" if host else ""
    return f"warning: the message to ${variable}{place} was not sent: {reason}"
