"""The table `[notify]`, and messages to its URLs through apprise."""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, suggest

# Parts of a token's length; shorter ones are words such as `hooks`, and letters alone are names.
_A_TOKEN = 8
_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,24}\.?", re.IGNORECASE)


def public_host(url: str) -> str:
    """Return the host of a URL; empty where the URL names no host, but begins with a token.

    >>> public_host("https://me:pw@hooks1.example.com:8443/T0KEN"), public_host("slack://T0KENAAAA/B0KENBBB")
    ('hooks1.example.com', '')
    """
    place = _place(url).rpartition("@")[2]
    host = place[1 : place.find("]")] if place.startswith("[") else place.partition(":")[0]
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host if host.lower() == "localhost" or _NAME.fullmatch(host) else ""


def secret_parts(url: str) -> Iterator[str]:
    """Yield the texts to redact for a URL: the whole URL, and its parts that look like tokens. Its host is not one.

    >>> list(secret_parts("slack://T0KENAAAA/B0KENBBB"))
    ['slack://T0KENAAAA/B0KENBBB', 'T0KENAAAA/B0KENBBB', 'T0KENAAAA', 'B0KENBBB']
    >>> list(secret_parts("json://10.0.0.12:8080/")), list(secret_parts("json://10.0.0.12/r00m-t0ken"))[2:]
    ([], ['r00m-t0ken'])
    """
    rest, host = url.partition("://")[2], public_host(url)
    if host and "@" not in rest and rest.removeprefix(_place(url)) in ("", "/"):
        return
    yield url
    if rest:
        yield rest
    parts = re.split(r"[/?&=@:\[\]#]", rest)
    yield from (part for part in parts if len(part) >= _A_TOKEN and re.search(r"\d", part) and part != host)


def _place(url: str) -> str:
    """Return the part of a URL before its path: user, password, host and port."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]


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
    variable: str
    title: str
    body: str


def read_notify_settings(table: Mapping[str, Any]) -> NotifySettings:
    """Return the settings of the table `[notify]`. Raises SpecError, which shows no URL."""
    names = (*ENDINGS, "budget")
    for name in table:
        if name not in names:
            hint = suggest(name, names, always=f"it takes {', '.join(names)}")
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
    unset = [name for name in dict.fromkeys(n.variable for n in notices) if not environment.get(name)]
    failures = [_not_sent(name, "the variable is not set") for name in unset]
    urls = {environment[notice.variable]: notice for notice in reversed(notices) if environment.get(notice.variable)}
    messages = [{"url": url, "title": notice.title, "body": notice.body} for url, notice in urls.items()]
    reasons = _deliver(messages) if messages else []
    return failures + [
        _not_sent(notice.variable, reason, public_host(url))
        for (url, notice), reason in zip(urls.items(), reasons, strict=True)
        if reason
    ]


def _deliver(messages: list[dict[str, str]]) -> list[str]:
    # In the session's process apprise and its HTTP client would write the URLs, which are secrets, into logs that pytest keeps.
    command = [sys.executable, "-m", "pytest_crucible.telemetry.notices"]
    try:
        # Neither on the command line, which every user of the machine may list, nor in a file.
        done = subprocess.run(command, input=json.dumps(messages), capture_output=True, text=True, timeout=TIMEOUT_S)
        reasons: list[str] = json.loads(done.stdout.splitlines()[-1])
        return reasons
    except subprocess.TimeoutExpired:
        return [f"no answer within {TIMEOUT_S:g} s" for _ in messages]
    except (OSError, ValueError, IndexError):
        return ["apprise failed" for _ in messages]


def _not_sent(variable: str, reason: str, host: str = "") -> str:
    place = f" ({host})" if host else ""
    return f"warning: the message to ${variable}{place} was not sent: {reason}"


def _send_all(messages: list[dict[str, Any]]) -> list[str]:
    """Send messages in this process; return a reason for each, empty if it was sent."""
    try:
        import apprise
    except ImportError:
        return ['apprise is not installed: pip install "pytest-crucible[notify]"' for _ in messages]
    return [_send(apprise, message) for message in messages]


def _send(apprise: Any, message: dict[str, Any]) -> str:
    service = apprise.Apprise()
    if not service.add(message["url"]):
        return "its value is not a URL that apprise knows: see https://github.com/caronc/apprise/wiki"
    # Nothing of an error is shown: it may have the URL in it.
    sent = service.notify(title=message["title"], body=message["body"])
    return "" if sent else "the service did not take it"


if __name__ == "__main__":
    print(json.dumps(_send_all(json.load(sys.stdin))))
