"""Word differences of two replies of 1 MB on the page of a sample: the time until they are drawn, and how long the page hangs.

    python -m benchmarks.view_sample

The first call builds the store, in a second.
"""

from __future__ import annotations

from typing import Any

from benchmarks.dashboard import long_replies, not_responding_s, open_browser, open_tab, served
from benchmarks.figures import Figure, show

# Positions of the samples of the store.
TEXTS = {
    "one word in a hundred changed": 0,
    "no common word": 1,
    "one Chinese character in a hundred changed": 2,
    "Chinese, no common sentence": 3,
    "Japanese, no common sentence": 4,
    "Thai, no common sentence": 5,
    "emoji between blanks": 6,
    "one word": 7,
    "random bytes": 8,
}
# From the key to the last part of the difference, in milliseconds. Long tasks before the key are those of opening the page.
MEASURE = """async () => {
    const output = document.querySelector("#difference"), from = performance.now();
    window.longestTask = window.longestEvent = 0;
    const drawn = new Promise((resolve) => {
        new MutationObserver(() => output.dataset.state === "done" && resolve()).observe(output, { attributes: true });
    });
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "d", code: "KeyD", bubbles: true, cancelable: true }));
    await drawn;
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - from;
}"""


def figures() -> list[Figure]:
    """Return the figures; none without a browser."""
    with open_browser() as browser:
        return compare_long_replies(browser) if browser else []


def compare_long_replies(browser: Any) -> list[Figure]:
    """Return how long a comparison takes, and the longest that its page did not respond meanwhile."""
    measured = []
    with served(long_replies()) as dashboard, open_tab(browser, dashboard) as tab:
        for name, position in TEXTS.items():
            tab.goto(f"{dashboard.address}/runs/long/samples/1/{position}")
            tab.wait_for_selector("#neighbours a")
            taken = tab.evaluate(MEASURE) / 1e3
            measured.append(Figure(name=f"two replies of 1 MB: {name}", measured=taken, unit="s", limit=0.5, digits=2))
            tab.wait_for_timeout(300)
            silent = not_responding_s(tab)
            measured.append(Figure(name="- longest not responding", measured=silent, unit="s", limit=0.1, digits=2))
    return measured


if __name__ == "__main__":
    raise SystemExit(show(figures()))
