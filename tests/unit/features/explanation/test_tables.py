"""The table of a metric: what each segment adds, what is lost or missing, and the deletion curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_crucible.features.explanation.records import Explanation
from pytest_crucible.features.explanation.results import ArmScores, explain_metrics, plan_further
from pytest_crucible.features.explanation.section import document_of, shaded_prompts, versions_table
from pytest_crucible.features.explanation.segments import Segment
from pytest_crucible.features.explanation.tables import metric_tables
from pytest_crucible.records import ArmOutcomes, Lost, MetricFacts, ScoreColumns, Unit
from pytest_crucible.records.outcomes import skip_units
from pytest_crucible.stats.attribution.sets import plan_sets

SEGMENTS = tuple(Segment(0, 4 * k, 4 * k + 4, f"user, paragraph {k + 1}") for k in range(4))
FACTS = MetricFacts(name="score", kind="bounded", low=0.0, high=1.0)


def explanation_of(segments=4, calls=200, *, is_random=False):
    sets = plan_sets(segments, calls, is_random=is_random, seed=1)
    return Explanation(
        sample="q\x1b[2J17",
        kind="paragraph",
        segments=(SEGMENTS[:segments],),
        lengths=(16,),
        sets=sets,
        planned=len(sets.masks),
        calls=calls,
    )


def value(mask):
    return 0.1 + 0.5 * (mask & 3 == 3) + 0.2 * (mask >> 2 & 1)


def outcomes(explanation, twin, lost=(), failed=()):
    """Return one arm's outcomes on the sample (twin 0) or on its versions."""
    places = [
        (repeat, mask)
        for number, mask in enumerate(explanation.sets.masks)
        for draw in range(explanation.sets.repeats)
        for at, repeat in [explanation.place(number, draw)]
        if at == twin and mask not in lost
    ]
    repeats = [repeat for repeat, _ in places]
    scores = [(repeat, value(mask)) for repeat, mask in places if mask not in failed]
    return ArmOutcomes(
        positions=[0] * len(repeats),
        repeats=repeats,
        failures=["assertion" if mask in failed else None for _, mask in places],
        skipped=[False] * len(repeats),
        scores={
            "score": ScoreColumns(
                positions=[0] * len(scores),
                repeats=[repeat for repeat, _ in scores],
                values=[score for _, score in scores],
                is_bool=[False] * len(scores),
            )
        },
        lost=[Lost(Unit(0, 1, 0, 0), None, reason) for reason in ["error"] * len(lost)] if twin else [],
    )


def results_of(explanation, **parts):
    arm = ArmScores(whole=outcomes(explanation, 0, **parts), versions=outcomes(explanation, 1, **parts))
    return explain_metrics(explanation, 0, [arm], [FACTS])


def test_a_place_and_its_set_are_inverse():
    explanation = explanation_of(is_random=True)
    places = [
        (number, draw) for number in range(len(explanation.sets.masks)) for draw in range(explanation.sets.repeats)
    ]

    assert [explanation.set_at(*explanation.place(*place)) for place in places] == places
    assert len({explanation.place(*place) for place in places}) == len(places)


def test_the_table_has_the_known_values_and_a_hostile_id_is_inert():
    explanation = explanation_of()
    [table] = metric_tables(explanation, ["v2"], results_of(explanation)[0])

    assert table.title == (
        "q\\x1b[2J17, v2, score: 0.80 with the whole prompt, 0.10 with an empty one; 16 requests, exact"
    )
    assert [row.cells for row in table.rows] == [
        ("1 user, paragraph 1", "+0.25", "+0.50"),
        ("2 user, paragraph 2", "+0.25", "+0.50"),
        ("3 user, paragraph 3", "+0.20", "+0.20"),
        ("4 user, paragraph 4", "0.00", "0.00"),
        ("interaction of 1 and 2", "+0.50", " "),
    ]
    assert table.note.startswith(
        "deletion curve, largest first: 0.80, 0.30, 0.30, 0.10, 0.10 with 0, 1, 2, 3, 4 removed; "
    )


def test_a_lost_version_is_counted_and_a_failed_one_has_the_worst_value():
    explanation = explanation_of()
    lost, failed = (
        metric_tables(explanation, ["v2"], results_of(explanation, **parts)[0])[0]
        for parts in ({"lost": (0b1110,)}, {"failed": (0b1110,)})
    )

    assert lost.title.endswith("; 15 of 16 requests, 1 lost")
    assert lost.rows[0].cells[-1] == "-"
    assert failed.rows[0].cells[-1] == "+0.80"


def test_a_failed_version_has_the_worst_value_of_its_metric():
    explanation = explanation_of()
    arm = ArmScores(whole=outcomes(explanation, 0), versions=outcomes(explanation, 1, failed=(0b1110,)))
    place = explanation.sets.masks.index(0b1110)

    for direction, worst in (("higher", 0.0), ("lower", 1.0)):
        assert arm.table(explanation, 0, replace(FACTS, direction=direction))[place, 0] == worst


def test_what_a_budget_or_a_deadline_cut_off_is_missing_and_not_lost():
    explanation = explanation_of()
    versions = outcomes(explanation, 1, lost=(0b1110, 0b1101, 0b1011))
    reasons = ("error", "budget", "deadline")
    lost = [replace(loss, reason=reason) for loss, reason in zip(versions.lost, reasons, strict=True)]
    arm = ArmScores(whole=outcomes(explanation, 0), versions=replace(versions, lost=lost))
    [table] = metric_tables(explanation, ["v2"], explain_metrics(explanation, 0, [arm], [FACTS])[0])

    assert table.title.endswith("; 13 of 16 requests, 1 lost, 2 missing")


def test_versions_and_json_have_every_score():
    explanation = explanation_of(2)
    replies = [{(number, 0): f"reply {number} " + "x" * 400 for number in range(4)}]
    table = versions_table(explanation, ["v2"], results_of(explanation), replies)
    document = document_of(explanation, ["v2"], results_of(explanation), replies)

    assert [row.cells[0] for row in table.rows] == ["nothing", "1, 2", "1", "2"]
    assert "characters more) ..." in table.rows[0].cells[-1]
    assert [version["scores"]["score"]["v2"] for version in document["versions"]] == [[0.6], [0.1], [0.1], [0.1]]
    values = document["metrics"]["score"]["arms"]["v2"]
    assert values["shapley"] == pytest.approx([0.25, 0.25])
    assert values["interactions"] == [{"segments": [1, 2], "value": pytest.approx(0.5)}]


def test_a_metric_that_does_not_apply_is_no_score():
    explanation = explanation_of(2)
    none = ScoreColumns(positions=[0], repeats=[0], values=[None], is_bool=[False])
    arm = ArmScores(whole=outcomes(explanation, 0), versions=outcomes(explanation, 1))
    arm.whole.scores["score"] = none

    assert np.isnan(arm.table(explanation, 0, FACTS)[0, 0])
    results = explain_metrics(explanation, 0, [arm], [FACTS])
    [table] = metric_tables(explanation, ["v2"], results[0])
    assert table.title.endswith(
        "unknown with the whole prompt, 0.10 with an empty one; 3 of 4 requests, 1 not applicable"
    )
    document = document_of(explanation, ["v2"], results, [{}])
    values = document["metrics"]["score"]["arms"]["v2"]
    assert (values["lost"], values["not_applicable"], values["missing"]) == (0, 1, 1)


def test_a_version_that_the_test_skips_is_not_applicable_and_unplanned_draws_are_not_counted():
    explanation = explanation_of(2)
    arm = ArmScores(whole=skip_units(outcomes(explanation, 0), [(0, 1)]), versions=outcomes(explanation, 1))
    skipping = replace(arm, versions=skip_units(outcomes(explanation, 1, lost=(0b01,)), [(0, 2)]))

    assert [each.count_inapplicable(0, "score", 1) for each in (arm, skipping)] == [0, 1]


def test_a_lost_draw_leaves_all_sets():
    explanation = explanation_of(2, is_random=True)
    arm = ArmScores(whole=outcomes(explanation, 0), versions=outcomes(explanation, 1))
    arm.whole.scores["score"].values[0] = None
    [table] = metric_tables(explanation, ["v2"], explain_metrics(explanation, 0, [arm], [FACTS])[0])

    assert table.title.endswith("199 of 200 requests, 1 not applicable, all sets x 50 draws")


def test_metrics_share_the_random_orders_of_their_curves():
    """150 requests suffice for 20 orders, whose sets are counted once."""
    explanation = explanation_of(12, calls=150)
    weights = 0.5 ** np.arange(12)
    scores = np.array([[sum(weights[k] for k in range(12) if mask >> k & 1)] for mask in explanation.sets.masks])
    sets, deletions = plan_further(explanation, [scores, -scores, scores])

    assert [len(deletion.other_orders) for deletion in deletions] == [20, 20, 20]
    assert deletions[2].masks == ()
    assert len(sets.masks) <= 150


def test_a_lost_reply_is_null_in_json_and_an_empty_one_is_empty():
    explanation = explanation_of(2)
    document = document_of(explanation, ["v2"], results_of(explanation), [{(0, 0): ""}])

    assert [version["replies"]["v2"] for version in document["versions"]] == [[""], [None], [None], [None]]


def test_a_segment_without_a_value_is_not_shaded_as_0():
    explanation = explanation_of(2)
    results = results_of(explanation, lost=(0b11,))
    [text] = shaded_prompts(replace(explanation, lengths=(8,)), ["v2"], results, "one\n\ntwo")

    assert [(part.mark, part.weight) for part in text.parts if part.mark] == [("1: -", 0.0), ("2: -", 0.0)]
