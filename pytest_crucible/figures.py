"""Each figure of a run as a report of its own. A missing matplotlib is found out on import: before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pytest_crucible.records import Run
from pytest_crucible.report import plots
from pytest_crucible.report.chapters import Chapter
from pytest_crucible.sampled import chapters

Draw = Callable[[Run, Sequence[Chapter]], Any]


def _drawn(draw: Draw, kind: str, run: Run) -> bytes:
    with chapters(run) as found:
        return plots.saved(draw(run, found), kind)


forest_svg, forest_pdf = (partial(_drawn, plots.forest, kind) for kind in ("svg", "pdf"))
estimates_svg, estimates_pdf = (partial(_drawn, plots.estimates, kind) for kind in ("svg", "pdf"))
distributions_svg, distributions_pdf = (partial(_drawn, plots.distributions, kind) for kind in ("svg", "pdf"))
pairs_svg, pairs_pdf = (partial(_drawn, plots.pairs, kind) for kind in ("svg", "pdf"))
latency_svg, latency_pdf = (partial(_drawn, plots.latency, kind) for kind in ("svg", "pdf"))
