"""The list of samples in headless Chromium: from a choice to the drawn rows, and the time in which the page does not respond.

python -m benchmarks.view_samples
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.dashboard import many_samples, not_responding_s, open_browser, open_tab, served, settle
from benchmarks.figures import Figure, show

SIZES = {100_000: 0.2, 250_000: 1.0}
"""Samples, and the seconds that a filter or an order may take."""
CHOICES = {
    "a filter: worse": ("[name=show]", "worse"),
    "an order: most lost first": ("[name=sort]", "most-lost"),
    "an order by another metric": ("[name=metric]", "score"),
}
CHOOSE = """([field, value]) => new Promise((resolve) => {
    const grid = document.getElementById("samples");
    const select = document.querySelector(field);
    const started = performance.now();
    const rows = new MutationObserver(() => {
        if (grid.getAttribute("aria-busy") === "false") requestAnimationFrame(() => resolve(performance.now() - started));
    });
    rows.observe(grid, { attributes: true, attributeFilter: ["aria-busy"] });
    select.value = value;
    select.dispatchEvent(new Event(select.type === "search" ? "input" : "change", { bubbles: true }));
})"""
SCROLL = """async () => {
    const grid = document.getElementById("samples");
    for (let step = 0; step <= 60; step += 1) {
        grid.scrollTop = grid.scrollHeight * step / 60;
        await new Promise(requestAnimationFrame);
    }
}"""


def figures() -> list[Figure]:
    with open_browser() as browser:
        return [figure for size in SIZES for figure in measure_list(browser, size)] if browser else []


def measure_list(browser: Any, size: int) -> Iterator[Figure]:
    """Yield the figures of the list of a run with so many samples."""
    with served(many_samples(size)) as dashboard, open_tab(browser, dashboard) as tab:
        started = time.perf_counter()
        tab.goto(f"{dashboard.address}/runs/million/samples")
        tab.locator("#samples[aria-busy=false]").wait_for()
        yield Figure(
            name=f"{size:,} samples: their rows are there", measured=time.perf_counter() - started, unit="s", digits=2
        )
        settle(tab)
        for name, choice in CHOICES.items():
            seconds = tab.evaluate(CHOOSE, list(choice)) / 1e3
            yield Figure(name=f"- {name}", measured=seconds, unit="s", limit=SIZES[size], digits=2)
        yield Figure(
            name="- a search", measured=tab.evaluate(CHOOSE, ["[name=search]", "9999"]) / 1e3, unit="s", digits=2
        )
        tab.evaluate(SCROLL)
        settle(tab)
        yield Figure(name="- longest not responding", measured=not_responding_s(tab), unit="s", limit=0.1, digits=2)
        yield Figure(name="- memory of the server, at most", measured=dashboard.most_memory_mb, unit="MB", limit=300)


if __name__ == "__main__":
    raise SystemExit(show(figures()))
