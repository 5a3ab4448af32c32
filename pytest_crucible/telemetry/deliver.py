"""Sends messages with apprise, in a process of its own: JSON on standard input, failures on standard output.

In the session's process apprise and its HTTP client would write the URLs, which are secrets, into logs that pytest keeps.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def send(messages: list[dict[str, Any]]) -> list[str]:
    """Send each message; return a reason for each, empty if it was sent."""
    try:
        import apprise
    except ImportError:
        return ['apprise is not installed: pip install "pytest-crucible[notify]"' for _ in messages]
    return [_send_one(apprise, message) for message in messages]


def _send_one(apprise: Any, message: dict[str, Any]) -> str:
    service = apprise.Apprise()
    if not service.add(message["url"]):
        return "its value is not a URL that apprise knows: see https://github.com/caronc/apprise/wiki"
    # Nothing of an error is shown: it may have the URL in it.
    sent = service.notify(title=message["title"], body=message["body"])
    return "" if sent else "the service did not take it"


if __name__ == "__main__":
    print(json.dumps(send(json.load(sys.stdin))))
