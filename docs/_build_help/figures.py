"""MkDocs hooks: draw the figures of the pages in docs/statistics with the package while building.

A page contains `<!-- figure: NAME -->`; NAME is a function of one of the `drawn_` modules, which draws on a given
figure, and whose docstring becomes the figure's text description. The SVG becomes a part of the page, so that text and
axes take the colour of the page's own text, light or dark. Nothing is written to disk.

The build fails for a figure that does not exist, for a figure on no page, and for a statistics page without figures.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable
from html import escape
from types import ModuleType

import drawn_alarms
import drawn_answers
import drawn_errors
import matplotlib as mpl
from matplotlib.figure import Figure
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

Draw = Callable[[Figure], None]

FOLDER = "statistics/"
# Stands for the colour of the page's text while matplotlib draws.
INK = "#010203"
STYLE = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.prop_cycle": mpl.cycler(color=["#3b7dd8", "#c8701d", "#2a9d6f", "#9a6fd0"]),  # 3:1 or more on white and dark
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.figsize": (7.0, 3.6),
    "font.size": 9.5,
    "grid.alpha": 0.18,
    "grid.color": INK,
    "legend.frameon": False,
    "lines.markersize": 4.5,
    "patch.edgecolor": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "pytest-crucible",  # the same figure is the same text
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_MARK = re.compile(r"<!-- figure: (\w+) -->")
_SIZE = re.compile(r'width="[\d.]+pt" height="[\d.]+pt"')

_shown: list[str] = []


def on_pre_build(config: MkDocsConfig) -> None:
    _shown.clear()


def on_page_markdown(markdown: str, page: Page, **_: object) -> None:
    """Check the page's figures; drawing comes later, after Markdown and the search index."""
    names = _MARK.findall(markdown)
    if page.file.src_uri.startswith(FOLDER) and not names:
        raise PluginError(f"{page.file.src_uri} has no figure")
    for name in names:
        if name not in FIGURES:
            raise PluginError(f"{page.file.src_uri} shows an unknown figure: {name}")
    _shown.extend(names)


def on_post_page(output: str, **_: object) -> str:
    return _MARK.sub(lambda mark: _figure(mark[1]), output)


def on_post_build(config: MkDocsConfig) -> None:
    if sorted(_shown) != sorted(FIGURES):
        wrong = sorted(set(FIGURES) - set(_shown)) or sorted({name for name in _shown if _shown.count(name) > 1})
        raise PluginError(f"each figure belongs on exactly one page, unlike {', '.join(wrong)}")


def _draw_functions(module: ModuleType) -> dict[str, Draw]:
    functions = inspect.getmembers(module, inspect.isfunction)
    own = {name: function for name, function in functions if function.__module__ == module.__name__}
    return {name: function for name, function in own.items() if not name.startswith("_")}


FIGURES = _draw_functions(drawn_alarms) | _draw_functions(drawn_answers) | _draw_functions(drawn_errors)


def _figure(name: str) -> str:
    described = escape(" ".join((inspect.getdoc(FIGURES[name]) or "").split()))
    if not described:
        raise PluginError(f"the figure {name} has no description")
    svg = svg_of(FIGURES[name]).replace("<svg ", f'<svg role="img" aria-label="{described}" ', 1)
    return f'<figure style="margin: 1em 0; max-width: 44em; width: 100%">{svg}</figure>'


def svg_of(draw: Draw) -> str:
    """Return the figure as SVG that scales with its page and takes the page's own text colour."""
    with mpl.rc_context(STYLE):
        figure, file = Figure(layout="constrained"), io.StringIO()
        draw(figure)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg ") :].replace(INK, "currentColor")
    return _SIZE.sub('style="width: 100%; height: auto"', svg, count=1)
