"""Mermaid itself in a headless Chromium, where this machine has both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import chromium

_PROGRAM = Path(__file__).parent.parent / "node_modules/mermaid/dist/mermaid.min.js"
_DRAW = """
async (text) => {
  try {
    const { svg } = await mermaid.render("drawn", text);
    const page = document.createElement("div");
    document.body.append(page);
    page.innerHTML = svg;
    const texts = [...page.querySelectorAll("p, text, tspan, title, span")].map((node) => node.textContent);
    const links = page.querySelectorAll("a, script, iframe, img, [onclick], [onload]").length;
    page.remove();
    return { texts, links, is_hurt: Boolean(window.hurt) };
  } catch (error) {
    return { error: String(error) };
  }
}
"""


@contextlib.contextmanager
def mermaid_js() -> Iterator[Callable[[str], list[str]]]:
    """A function that draws a diagram and returns its texts. It fails where Mermaid does, and for an element that acts."""
    if not _PROGRAM.exists():
        pytest.skip("no Mermaid here: npm install --no-save --no-package-lock mermaid")
    with chromium() as browser:
        page = browser.new_page()
        page.add_script_tag(path=_PROGRAM)
        page.evaluate("mermaid.initialize({ startOnLoad: false })")

        def draw(text: str) -> list[str]:
            drawn = page.evaluate(_DRAW, text)
            assert "error" not in drawn, f"{drawn}\n{text}"
            assert not drawn["links"]
            assert not drawn["is_hurt"]
            return drawn["texts"]

        yield draw
