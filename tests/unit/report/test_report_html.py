"""The HTML page: scales, aligned cells, pictures, packed samples, and who was right where."""

from __future__ import annotations

import base64
import gzip
import json
import math
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records import ArmReply, Exchange, MetricFacts, Row, SampleColumns, Table
from pytest_crucible.records.views import Curve, LineChart
from pytest_crucible.report.html import (
    A_TEXT,
    FEW,
    PART,
    ROOM,
    archive_samples,
    blanks,
    laid_out,
    pack_json,
    render_html,
    text_of,
)
from pytest_crucible.report.model import Chapter, build_report
from pytest_crucible.report.pictures import (
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    axis,
    differences,
    distribution,
    draw_lines,
    levels,
    pairs,
    waiting,
)
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


def test_an_infinite_end_moves_no_other_end_away_from_its_comma():
    (_, first), _ = align_estimates(["0.5 [0.25, 0.75]", "8.0 [7.5, inf]"])

    assert first == "[0.25, 0.75]"


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

    assert [(mark.name, mark.text, mark.limits) for mark in compared.marks] == [
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
    bad = replace(many, verdicts=tuple(
        replace(item, state="met" if item.nodeid < "t.py::test_09" else item.state) for item in many.verdicts
    ))  # fmt: skip

    rows = build_report(bad).verdicts[0].rows
    assert [row.experiment[-2:] for row in rows[:8:2]] == ["09", "10", "11", "12"]
    assert len(rows) == 2 * (MOST + 1)


def test_a_page_is_named_after_its_suites_and_arms(run, analysis, plan):
    other = analysis(plan(nodeid="test_words.py::test_words", path="test_words.py"))

    assert build_report(run()).subject == "test_math.py::test_sums: v2 vs v1"
    assert build_report(run(analysis(), other)).subject == "test_math.py and 1 more: v2 vs v1"
    assert build_report(replace(run(), experiments=(), verdicts=())).subject == ""


SAMPLES = 5 * PART


def exchange(position: int) -> Exchange:
    text = random.Random(position).randbytes(200).hex()  # does not get much smaller
    reply = ArmReply(
        repeat=0, state="answered", text=f"{position} {text}", detail="", latency_s=None, output_tokens=None
    )
    return Exchange(position=position, input=f"asked {position}", expected=None, replies=((reply,), (reply,)))


@pytest.fixture
def chapter(analysis):
    """The last sample is the worst, the first but nine is the slowest."""
    ours = [1.0] * (SAMPLES - 1) + [0.0]
    took = [1.0] * SAMPLES
    took[9] = 60.0
    columns = SampleColumns(
        ids=tuple(f"s{k}" for k in range(SAMPLES)), groups=(None,) * SAMPLES, latency_s=(took, took),
        scores={"exact": (ours, [1.0] * SAMPLES)}, states=(("answered",) * SAMPLES,) * 2,
    )  # fmt: skip
    return Chapter(
        analysis=analysis(), metric="exact", judged=("exact",), columns=columns, clusters=None,
        facts={"exact": MetricFacts(name="exact", kind="binary")},
        read=lambda positions: [exchange(position) for position in positions],
    )  # fmt: skip


def unpack(letters: str):
    return json.loads(gzip.decompress(base64.b64decode(letters)))


def packed_texts(archive) -> list[str]:
    return [question for part in archive.parts for question, _, _ in unpack(part)]


def test_a_small_page_has_all_texts(chapter):
    whole = archive_samples(chapter, room=ROOM, seed=7)

    assert (whole.note, unpack(whole.columns)["kept"]) == ("", None)
    assert packed_texts(whole) == [f"asked {k}" for k in range(SAMPLES)]


def test_a_full_page_names_the_texts_that_it_has(chapter):
    room = 2 * len(archive_samples(chapter, room=ROOM, seed=7).parts[0]) + 1000
    some = archive_samples(chapter, room=room, seed=7)

    positions = unpack(some.columns)["kept"]
    assert packed_texts(some) == [f"asked {k}" for k in positions]
    assert sum(map(len, some.parts)) <= room
    assert len(positions) == len(set(positions)) == 2 * PART
    assert positions[:2] == [SAMPLES - 1, positions[1]]
    assert 9 in positions[:3]
    assert len(unpack(some.columns)["ids"]) == SAMPLES
    assert some.note == (
        "400 of 1,000 samples have their prompts and replies in this page: the worst, the slowest, a draw with seed 7. "
        "Of the others there are the numbers."
    )


def test_the_seed_decides_the_drawn_samples(chapter):
    drawn, same, other = (unpack(archive_samples(chapter, room=1, seed=seed).columns)["kept"] for seed in (1, 1, 2))

    assert drawn == same != other
    assert len(drawn) == PART  # a part at least


def test_the_worst_samples_follow_the_direction(chapter):
    lower = {"exact": MetricFacts(name="exact", direction="lower")}
    turned = replace(chapter, facts=lower)

    assert unpack(archive_samples(turned, room=1, seed=7).columns)["kept"][0] == 0


def test_unknown_values_give_no_order(chapter):
    unknown = replace(chapter.columns, latency_s=([float("nan")] * SAMPLES,) * 2)

    reply = archive_samples(replace(chapter, columns=unknown, metric=None), room=1, seed=7).note
    assert "in this page: a draw with seed 7" in reply


OUR_SCORES, THEIR_SCORES = (1.0, 1.0, 1.0, 0.0, math.nan), (0.0, 0.0, 1.0, 1.0, 1.0)


@pytest.fixture
def five_samples(analysis):
    """Five samples, one of which the candidate lost."""

    def of(experiment=None, **facts):
        nothing = ((math.nan,) * 5,) * 2
        columns = SampleColumns(
            ids=tuple("abcde"), groups=("",) * 5, scores={"exact": (OUR_SCORES, THEIR_SCORES)}, latency_s=nothing,
            states=(("answered",) * 5,) * 2,
        )  # fmt: skip
        return Chapter(
            analysis=experiment or analysis(), metric="exact", judged=("exact",), columns=columns, clusters=None,
            facts={"exact": MetricFacts(name="exact", kind="binary", low=0.0, high=1.0, **facts)},
            read=lambda places: (),
        )  # fmt: skip

    return of


@pytest.mark.parametrize(("direction", "better", "worse"), [("higher", 2, 1), ("lower", 1, 2)])
def test_agreement_follows_the_direction_of_the_metric(run, five_samples, direction, better, worse):
    page = render_html(build_report(run()), [five_samples(direction=direction)])

    assert f'<td class="gain">{better} <span>better</span>' in page
    assert f'<td class="loss">{worse} <span>worse</span>' in page


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_samples_of_many_experiments_are_folded(run, analysis, plan, five_samples, count):
    analyses = [analysis(plan(nodeid=f"t.py::test_{k}")) for k in range(count)]
    page = render_html(build_report(run(*analyses)), [five_samples(experiment) for experiment in analyses])

    assert page.count('<details class="scene" open>') == (count if count <= FEW else 0)
    assert page.count('<span aria-hidden="true">✗</span> missed</span></summary>') == count


def draw(*points: tuple[float, float]) -> str:
    return draw_lines(LineChart(title="loss", across="step", lines=(Curve(label="<v2>", points=points),)))


def test_a_line_has_a_gap_where_a_number_is_not_finite():
    picture = draw((1, 2.0), (2, 1.0), (3, math.nan), (4, math.inf), (5, 1.0), (6, 0.5), (7, math.nan), (8, 1.0))

    assert picture.count("<polyline") == 2
    assert picture.count("<circle") == 1
    assert "nan" not in picture
    assert "inf" not in picture
    assert "&lt;v2&gt;" in picture


def test_a_chart_without_a_finite_point_is_not_drawn():
    assert draw((1, math.nan)) == ""


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1))
def test_every_point_of_a_line_is_within_its_picture(points):
    picture = draw(*points)

    places = [pair.split(",") for line in re.findall(r'points="([^"]*)"', picture) for pair in line.split()]
    places += re.findall(r'cx="([^"]*)" cy="([^"]*)"', picture)
    assert len(places) == len(points)
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in places)
