"""The dashboard: first paint, filters, word differences and live progress in headless Chromium, and what the server needs.

    python -m benchmarks.view

The first call builds the stores (1,000 runs, 100,000 and 250,000 samples), in a minute. They stay in the temporary folder.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

from benchmarks import view_live, view_sample, view_samples
from benchmarks.dashboard import (
    first_paint_s,
    many_runs,
    many_samples,
    not_responding_s,
    open_browser,
    open_tab,
    results_s,
    served,
)
from benchmarks.figures import Figure, show
from pytest_crucible.features.view.application import ASSETS
from pytest_crucible.report.html import HERE as REPORT_ASSETS

TEMPLATES = ASSETS.parent / "templates"
SAMPLES, OBSERVATIONS = 100_000, 1_000_000


def figures() -> list[Figure]:
    with open_browser() as browser:
        painted = pages_of_large_stores(browser) if browser else []
    return [*painted, *view_samples.figures(), *view_sample.figures(), *view_live.figures(), *sizes_of_assets()]


def pages_of_large_stores(browser: Any) -> list[Figure]:
    """Return the first paint of each page of the three stores, the longest that one did not respond, and the server's memory."""
    runs = measure_pages(browser, many_runs(), {"1,000 runs": "/"})
    samples = measure_pages(browser, many_samples(SAMPLES), {f"{SAMPLES:,} samples": "/runs/million/samples"})
    million = {
        "a run of a million observations": "/runs/million",
        "its 250,000 samples": "/runs/million/samples",
        "one of its samples": "/runs/million/samples/1/125000",
        "its requests": "/runs/million/requests",
        "its metric over commits": "/trend/right",
    }
    return [*runs, *samples, *measure_pages(browser, many_samples(OBSERVATIONS // 4), million)]


def measure_pages(browser: Any, store: Path, pages: dict[str, str]) -> list[Figure]:
    """Return the figures of pages of a store, each opened in a tab that has the cookie."""
    measured = []
    with served(store) as dashboard, open_tab(browser, dashboard) as tab:
        for name, path in pages.items():
            paint = first_paint_s(tab, dashboard.address + path)
            measured.append(Figure(name=f"first paint: {name}", measured=paint, unit="s", limit=0.8, digits=2))
            measured.append(Figure(name="- with all that it fetches", measured=results_s(tab), unit="s", digits=2))
            silent = not_responding_s(tab)
            measured.append(Figure(name="- longest not responding", measured=silent, unit="s", limit=0.1, digits=2))
        measured.append(
            Figure(name="- memory of the server", measured=dashboard.server_memory_mb(), unit="MB", limit=300)
        )
    # A process that computes the results of a run lives for some seconds.
    most = dashboard.most_memory_mb
    return [*measured, Figure(name="- with the process that computes results", measured=most, unit="MB")]


def sizes_of_assets() -> list[Figure]:
    """Return the size of the scripts and styles of all pages, as files and as they are sent."""
    files = [file for file in ASSETS.iterdir() if file.suffix in (".js", ".css")]
    shared = REPORT_ASSETS / "page.css"
    own = sum(file.stat().st_size for file in files) / 1e3
    sent = sum(len(gzip.compress(file.read_bytes())) for file in [*files, shared]) / 1e3
    return [
        Figure(name="script and style of all pages", measured=own, unit="kB", limit=80),
        Figure(name="- with the style of reports", measured=own + shared.stat().st_size / 1e3, unit="kB"),
        Figure(name="- as they are sent", measured=sent, unit="kB", limit=80),
        Figure(name="- those that the largest page loads", measured=largest_page_kb(), unit="kB", limit=80),
    ]


def largest_page_kb() -> float:
    """Return the size of the scripts and styles of the page that loads most, with the modules that they import."""
    base = _loaded_names((TEMPLATES / "base.html.j2").read_text(encoding="utf-8"))
    pages = (_loaded_names(page.read_text(encoding="utf-8")) for page in TEMPLATES.glob("*.html.j2"))
    return max(sum(_asset(name).stat().st_size for name in _with_imports(base | page)) for page in pages) / 1e3


def _loaded_names(template: str) -> set[str]:
    return set(re.findall(r"address\.asset\('([^']+)'\)", template))


def _with_imports(names: set[str]) -> set[str]:
    """Return names of assets with those that they import, or start as a worker."""
    imported = {
        name
        for each in names
        for name in re.findall(
            r"""(?:from |import\(|new URL\()"(?:\./)?(\w+\.js)""", _asset(each).read_text(encoding="utf-8")
        )
    }
    return names if imported <= names else _with_imports(names | imported)


def _asset(name: str) -> Path:
    return REPORT_ASSETS / "page.css" if name == "report/page.css" else ASSETS / name


if __name__ == "__main__":
    raise SystemExit(show(figures()))
