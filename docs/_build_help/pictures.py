"""Draw docs/pictures: the terminal and the HTML report of one run of example_suites/claims.

`python docs/_build_help/pictures.py`, with the extra `[docs]` and a Chromium, in about a minute. The suite runs on a copy: first as
in the README, which trains both adapters, then the other way round, from stored replies.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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
        (PICTURES / "report.png").write_bytes(photograph(page))


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


def photograph(page: Path) -> bytes:
    """Return a PNG of the upper part of a report."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport=PAGE, device_scale_factor=1.5, color_scheme="light")
        tab.goto(page.as_uri())
        picture = Image.open(io.BytesIO(tab.screenshot()))
        browser.close()
    small = io.BytesIO()
    # 64 colours are enough for text and marks, and halve the file.
    picture.convert("RGB").quantize(64).save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    main()
