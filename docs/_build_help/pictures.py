"""Draw docs/pictures: the terminal, the HTML report and the dashboard of one run of example_suites/claims.

`python docs/_build_help/pictures.py`, with the extra `[docs]` and a Chromium, in about a minute. The suite runs on a copy: first as
in the README, which trains both adapters, then the other way round, from stored replies.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SUITE = "example_suites/claims"
TRAINED = ("--crucible-adapter=v2", "--compare=v1")
SHOWN = ("--crucible-adapter=v1", "--compare=v2")
COLUMNS = 80
# The page's own width limit, and the part of it above the estimates.
PAGE = {"width": 1060, "height": 1055}
TAB = {"viewport": {"width": 1060, "height": 760}, "device_scale_factor": 1.25, "color_scheme": "light"}
# Pages below the address of a run, and the keys that are pressed on them.
VIEWS = (("run", "", ("j", "Enter")), ("samples", "/samples?sort=most-lost", ()), ("sample", "/samples/1/1", ("d",)))
# Reasons of verdicts follow their results.
COMPLETE = "() => !document.querySelector('main :is([aria-busy=true], .explanation .status)')"
# Of pytest's own output only what does not name this machine and does not repeat the verdicts.
QUIETER = "--no-header -rN --color=yes -p no:cacheprovider"
# Rich's SVG loads a font from a server of somebody else; readers have a monospaced one.
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / SUITE, Path(folder) / SUITE, ignore=shutil.ignore_patterns(".crucible", "__pycache__"))
        run_suite(folder, *TRAINED)
        page = Path(folder) / "evals.html"
        output = run_suite(folder, *SHOWN, options=f"--crucible-report={page}")
        (PICTURES / "terminal.svg").write_text(draw_terminal(output), encoding="utf-8")
        with open_browser() as browser:
            (PICTURES / "report.png").write_bytes(photograph(browser, page.as_uri()))
            draw_dashboard(browser, folder)


def draw_dashboard(browser: Any, folder: str) -> None:
    """Take pictures of a run, its samples, and one of them with the words in which two replies differ."""
    with serve_dashboard(folder) as link:
        tab = browser.new_page(**TAB)
        tab.goto(link)
        run = tab.url
        for name, address, keys in VIEWS:
            tab.goto(run + address)
            tab.wait_for_function(COMPLETE)
            for key in keys:
                tab.keyboard.press(key)
            tab.wait_for_timeout(5000)  # for what the keys have opened
            tab.wait_for_function(COMPLETE)
            (PICTURES / f"view-{name}.png").write_bytes(shrink(tab.screenshot()))


@contextlib.contextmanager
def serve_dashboard(folder: str) -> Iterator[str]:
    """Yield the link to the latest run of the suite in a folder."""
    store = f"--store={SUITE}/.crucible/crucible.db"
    command = [sys.executable, "-u", "-m", "pytest_crucible", "view", "latest", store, "--no-browser", "--port=0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        yield next(word for line in process.stdout for word in line.split() if "token=" in word)
    finally:
        process.terminate()
        process.wait()


def run_suite(folder: str, *arguments: str, options: str = "") -> str:
    """Return the output of pytest; the exit status is 1 where a target is missed."""
    # With CI set, pytest does not shorten its lines to the terminal's width.
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "BUILD_NUMBER", "NO_COLOR"}}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", SUITE, *arguments],
        cwd=folder,
        env={**environment, "COLUMNS": str(COLUMNS), "PYTEST_ADDOPTS": f"{QUIETER} {options}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode > 1:
        raise SystemExit(done.stdout)
    return done.stdout


def draw_terminal(output: str) -> str:
    """Return an SVG of the command and its output."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ ", style="bold") + Text(f"pytest {SUITE} {' '.join(SHOWN)}"))
    console.print(Text.from_ansi(output.rstrip()))
    return _FONTS.sub("", console.export_svg(title="pytest-crucible", theme=MONOKAI, unique_id="crucible"))


@contextlib.contextmanager
def open_browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def photograph(browser: Any, address: str) -> bytes:
    """Return a PNG of the upper part of a report."""
    tab = browser.new_page(viewport=PAGE, device_scale_factor=1.5, color_scheme="light")
    tab.goto(address)
    return shrink(tab.screenshot())


def shrink(screenshot: bytes) -> bytes:
    """Return a PNG of 64 colours, which are enough for text and marks, and halve the file."""
    small = io.BytesIO()
    Image.open(io.BytesIO(screenshot)).convert("RGB").quantize(64).save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    main()
