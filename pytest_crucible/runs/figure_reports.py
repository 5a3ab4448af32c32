"""Figures of a run, each as a separate report file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pytest_crucible.records import Run

# Importing this module reports a missing matplotlib, so the session ends before the first request is sent.
from pytest_crucible.report import plots
from pytest_crucible.report.experiment_page import Chapter
from pytest_crucible.runs.samples import chapters

Draw = Callable[[Run, Sequence[Chapter]], Any]


def _draw_figure(draw: Draw, kind: str, run: Run) -> bytes:
    with chapters(run) as chapters_of_run:
        return plots.figure_bytes(draw(run, chapters_of_run), kind)


forest_svg, forest_pdf = (partial(_draw_figure, plots.forest, kind) for kind in ("svg", "pdf"))
estimates_svg, estimates_pdf = (partial(_draw_figure, plots.estimates, kind) for kind in ("svg", "pdf"))
distributions_svg, distributions_pdf = (partial(_draw_figure, plots.distributions, kind) for kind in ("svg", "pdf"))
pairs_svg, pairs_pdf = (partial(_draw_figure, plots.pairs, kind) for kind in ("svg", "pdf"))
latency_svg, latency_pdf = (partial(_draw_figure, plots.latency, kind) for kind in ("svg", "pdf"))
