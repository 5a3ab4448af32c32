"""Experiments on the page: who was right where, and which lie open."""

from __future__ import annotations

import math

import pytest

from pytest_crucible.records import MetricFacts, SampleColumns
from pytest_crucible.report.html import FEW, render_html
from pytest_crucible.report.model import Chapter, build_report

OURS, THEIRS = (1.0, 1.0, 1.0, 0.0, math.nan), (0.0, 0.0, 1.0, 1.0, 1.0)


@pytest.fixture
def chapter(analysis):
    """Five samples, one of which the candidate lost."""

    def of(experiment=None, **facts):
        nothing = ((math.nan,) * 5,) * 2
        columns = SampleColumns(
            ids=tuple("abcde"), groups=("",) * 5, scores={"exact": (OURS, THEIRS)}, latency_s=nothing,
            states=(("answered",) * 5,) * 2,
        )  # fmt: skip
        return Chapter(
            analysis=experiment or analysis(), metric="exact", judged=("exact",), columns=columns, clusters=None,
            facts={"exact": MetricFacts(name="exact", kind="binary", low=0.0, high=1.0, **facts)},
            read=lambda places: (),
        )  # fmt: skip

    return of


@pytest.mark.parametrize(("direction", "better", "worse"), [("higher", 2, 1), ("lower", 1, 2)])
def test_agreement_follows_the_direction_of_the_metric(run, chapter, direction, better, worse):
    page = render_html(build_report(run()), [chapter(direction=direction)])

    assert f'<td class="gain">{better} <span>better</span>' in page
    assert f'<td class="loss">{worse} <span>worse</span>' in page


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_samples_of_many_experiments_are_folded(run, analysis, plan, chapter, count):
    analyses = [analysis(plan(nodeid=f"t.py::test_{k}")) for k in range(count)]
    page = render_html(build_report(run(*analyses)), [chapter(experiment) for experiment in analyses])

    assert page.count('<details class="scene" open>') == (count if count <= FEW else 0)
    assert page.count('<span aria-hidden="true">✗</span> missed</span></summary>') == count
