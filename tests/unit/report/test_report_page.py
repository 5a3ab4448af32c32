"""Parts of the page: scales, cells that align on the decimal point, packed samples."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records import Row, Table
from pytest_crucible.report.html import A_TEXT, blanks, laid_out, pack_json, text_of
from pytest_crucible.report.model import build_report
from pytest_crucible.report.pictures import LEFT, RIGHT, WIDTH, axis, differences, distribution, levels, pairs, waiting
from pytest_crucible.report.sections import MOST
from pytest_crucible.report.verdicts import DIGIT, POINT, align_estimates

NUMBERS = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-6)


@given(st.lists(NUMBERS, min_size=1))
def test_an_axis_covers_its_values(values):
    scale = axis(values)

    slack = 1e-6 * (scale.high - scale.low)
    assert scale.low - slack <= min(values)
    assert max(values) <= scale.high + slack
    assert 2 <= len(scale.ticks) <= 12
    assert all(0 <= scale.share(value) <= 1 for value in values)


def test_an_axis_without_finite_values_is_valid():
    assert axis([]).ticks == axis([0.0, 1.0]).ticks
    assert axis([math.inf, 0.0, 1.0]).high == 1.0


@given(st.lists(st.decimals(-999, 999, places=3).map(str), min_size=1, max_size=5))
def test_decimal_points_stand_under_each_other(numbers):
    cells = align_estimates([f"{item} [{item}, {item}]" for item in numbers])

    assert len({(text.index("."), len(text)) for text, _ in cells}) == 1


def test_cells_are_aligned_by_their_content():
    rows = (Row(experiment="a::b", cells=("x", "-0.5 [no interval]", "1,234", "met"), state="met"),)
    layout = laid_out(
        Table(title="", heads=("target", "estimate", "n", "verdict"), rows=rows, numbers=("n",)), many=True
    )

    (body,) = layout.bodies
    ((_, cells),) = body.rows
    assert body.name == "b"
    assert [(cell.kind, cell.text, cell.interval) for cell in cells] == [
        ("word", "x", ""), ("estimate", "−0.5", "[no interval]"), ("number", "1,234", ""), ("verdict", "met", ""),
    ]  # fmt: skip


def test_a_column_of_numbers_with_intervals_is_one_of_estimates():
    rows = (Row(experiment="a::b", cells=("v2", "1.53 [1.49, 1.62]")),)
    grid = Table(title="", heads=("arm", "p95"), rows=rows, numbers=("p95",))

    assert not grid.is_number(1)
    assert laid_out(grid).bodies[0].name == ""


def test_aligning_blanks_are_marked():
    (short, _), (long, interval) = align_estimates(["8 [2, 14]", "0.25 [0.1, <b>]"])

    assert str(blanks(short)) == f'8<span class="blank">{POINT}{DIGIT * 2}</span>'
    assert (long, str(blanks(interval)).count("&lt;b&gt;")) == ("0.25", 1)


def test_forests_draw_each_comparison_and_each_arm(run):
    (compared,), means = list(differences(run())), list(levels(run()))

    assert [(mark.name, mark.shown, mark.limits) for mark in compared.marks] == [
        ("v2 vs v1", "-0.035 [-0.087, +0.016]", (0.0,))
    ]
    assert [[mark.name for mark in item.marks] for item in means] == [["v2", "v1"]]
    assert means[0].marks[0].limits == (0.80,)
    ((_, strip, label),) = compared.strips()
    assert strip.count("<circle") == 1
    assert label == "−0.035 [−0.087, +0.016]"


@pytest.mark.parametrize("draw", [distribution, pairs], ids=["distribution", "pairs"])
def test_pictures_escape_names_and_leave_out_what_is_unknown(draw):
    arms = ("<v2>", [0.1, math.nan, 0.3]), ("v1", [0.2, 0.5, 0.4])

    drawn = draw("a<b", list(arms)) if draw is distribution else draw("a<b", *arms)

    assert drawn.startswith("<svg")
    assert "a&lt;b" in drawn
    assert "nan" not in drawn


def test_a_point_at_the_end_of_its_scale_is_drawn_beside_the_ticks():
    drawn = pairs("m", ("v2", [0.0] * 99 + [1.0]), ("v1", [0.0] * 99 + [1.0]))

    low, high = (float(place) for place in re.findall(r'<circle cx="([\d.]+)"', drawn))
    assert LEFT + 12 < low < high < WIDTH - RIGHT - 2.6


def test_no_values_give_no_picture():
    nothing = ("v2", [math.nan]), ("v1", [math.nan])

    assert (distribution("m", list(nothing)), pairs("m", *nothing), waiting(list(nothing))) == ("", "", "")


def test_many_pairs_are_drawn_in_squares():
    values = [k / 5000 for k in range(5000)]

    assert 20 < pairs("m", ("v2", values), ("v1", values)).count("<rect") < 800


def test_packed_samples_are_reproducible_text():
    value = {"text": "</script>", "n": None}

    assert pack_json(value) == pack_json(value)
    assert "<" not in pack_json(value)
    assert json.loads(gzip.decompress(base64.b64decode(pack_json(value)))) == value


def test_a_long_text_is_cut_with_a_note():
    assert text_of("x" * (A_TEXT + 5)).endswith("... (5 characters more)")
    assert text_of([{"role": "user", "content": "é"}]).count("é") == 1
    assert text_of(None) == ""


def test_each_line_of_a_forest_names_its_experiment_where_there_are_several(run, analysis, plan):
    two = run(analysis(plan(nodeid="t.py::test_a")), analysis(plan(nodeid="t.py::test_b")))

    (compared,) = differences(two)
    assert [(mark.experiment, mark.name) for mark in compared.marks] == [("test_a", "v2 vs v1"), ("test_b", "v2 vs v1")]
    assert "test_b: v2 vs v1: -0.035" in list(compared.strips())[1][1]


def test_files_list_the_worst_of_many_experiments_first(run, analysis, plan):
    many = run(*(analysis(plan(nodeid=f"t.py::test_{k:02}")) for k in range(MOST + 1)))
    bad = dataclasses.replace(many, verdicts=tuple(
        dataclasses.replace(item, state="met" if item.nodeid < "t.py::test_09" else item.state) for item in many.verdicts
    ))  # fmt: skip

    rows = build_report(bad).verdicts[0].rows
    assert [row.experiment[-2:] for row in rows[:8:2]] == ["09", "10", "11", "12"]
    assert len(rows) == 2 * (MOST + 1)


def test_a_page_is_named_after_its_suites_and_arms(run, analysis, plan):
    other = analysis(plan(nodeid="test_words.py::test_words", path="test_words.py"))

    assert build_report(run()).subject == "test_math.py::test_sums: v2 vs v1"
    assert build_report(run(analysis(), other)).subject == "test_math.py and 1 more: v2 vs v1"
    assert build_report(dataclasses.replace(run(), experiments=(), verdicts=())).subject == ""
