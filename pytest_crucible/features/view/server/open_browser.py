"""Opens a link in the browser, by a private file: everybody on the machine can list the arguments with which it is started."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from html import escape
from pathlib import Path

PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<title>crucible view</title><meta http-equiv="refresh" content="0; url={link}">
<p><a href="{link}">Open the dashboard</a></p></html>
"""


@contextlib.contextmanager
def browser_page(link: str) -> Iterator[None]:
    """Open a link in the browser. The file that leads to it is removed with the context."""
    # A folder that only this user can reach into.
    with tempfile.TemporaryDirectory(prefix="crucible-view-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "open.html"
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(PAGE.format(link=escape(link)))
        # A browser in the terminal ends when its user leaves it.
        threading.Thread(target=webbrowser.open, args=[path.as_uri()], daemon=True).start()
        yield


def has_screen() -> bool:
    """Return whether this machine may show a browser: over SSH, one in the terminal would take it from the dashboard."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, names))
