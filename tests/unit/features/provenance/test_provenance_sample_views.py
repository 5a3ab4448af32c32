"""The time line of a reply as a picture and a table."""

from __future__ import annotations

from timeline_builders import a_decision, a_long_story, a_timeline

from pytest_crucible.features.provenance.sample_views import MOST_STEPS, timeline_view
from pytest_crucible.features.provenance.timeline import Step


def test_each_step_is_a_row_with_its_kind_its_end_and_its_duration():
    [table] = timeline_view(a_long_story()).tables
    rows = [row.cells for row in table.rows]

    assert len(rows) == len(a_long_story().steps)
    assert ("waited 0.25 s for its turn", "wait", "+0.250 s", "0.250 s") in rows
    assert ("request: 429 after 0.5 s", "request", "+0.750 s", "0.500 s") in rows


def test_bars_begin_with_the_first_step_and_requests_have_lanes_of_their_own():
    [bars] = timeline_view(a_long_story()).time_bars
    spans = {span.lane: (span.start, span.end) for span in bars.spans}

    assert spans["call 1, wait"] == (0.0, 0.25)
    assert spans["call 1, request 1"] == (0.25, 0.75)


def test_a_decision_has_its_grounds_below_it():
    step = a_decision("scan", over=["search"], because="only 9 rows")
    [table] = timeline_view(a_timeline(step)).tables

    assert table.rows[0].below == "over: search; because: only 9 rows"


def test_what_a_model_says_of_itself_is_marked():
    [table] = timeline_view(a_timeline(a_decision("scan", is_claim=True))).tables

    assert table.rows[0].cells[0].startswith("says: ")


def test_a_reply_without_times_has_no_picture_and_a_folded_table():
    view = timeline_view(a_timeline(Step(kind="score", title="right = 1")))

    assert view.time_bars == ()
    assert view.tables[0].verbosity == 1


def test_the_title_names_arm_variant_and_repeat():
    assert timeline_view(a_timeline(variant="typos", repeat=1)).title == "Time line: v2, variant typos, repeat 2"


def test_a_long_time_line_says_how_many_steps_are_left_out():
    view = timeline_view(a_timeline(*[Step(kind="score", title="x")] * (MOST_STEPS + 2)))

    assert len(view.tables[0].rows) == MOST_STEPS
    assert view.tables[0].note == "2 more steps, which `crucible trace` prints."
