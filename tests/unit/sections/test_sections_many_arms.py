"""The table of many arms: which metrics it has, its words and its JSON."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_crucible.analyse.many_arms import ArmResult, ManyArms
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.records import Contrast, MetricFacts, Target
from pytest_crucible.sections import many_arms
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs
from pytest_crucible.stats.interval import Interval

RIGHT = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
SPAN = Interval(low=0.5, high=0.75, level=0.95, method="wilson")
BELOW = Interval(low=-0.25, high=0.0, level=0.95, method="simultaneous max-t")
FIRST = ArmResult(
    arm="v1",
    value=0.5,
    interval=SPAN,
    n=100,
    lost=2,
    rank=2,
    ranks=(1, 3),
    difference=-0.125,
    difference_interval=BELOW,
)
SECOND = ArmResult(arm="v2", value=0.625, interval=SPAN, n=100, lost=0, rank=1, ranks=(1, 2), difference=0.0)
THIRD = ArmResult(arm="v3", value=None, interval=None, n=0, lost=100, ranks=(2, 3))
TABLE = ManyArms(
    metric="right",
    direction="higher",
    arms=(FIRST, SECOND, THIRD),
    level=0.95,
    n=98,
    incomplete=2,
    draws=10_000,
    best="v2",
)


def make_inputs(arms: int, *, directed: bool = True, scored=("right", "words")) -> SectionInputs:
    none = np.zeros(40, dtype=bool)
    columns = [(np.arange(40) % (k + 2) > 0).astype(float) for k in range(arms)]
    plan = SimpleNamespace(
        arms=tuple(SimpleNamespace(name=f"v{k}") for k in range(arms)),
        contrasts=(Contrast(metric="right", baseline="v1"), Contrast(metric="right", baseline="v2")),
        targets=(Target(text="words <= 0.9", metric="words", relation="<=", value=0.9),),
        random_factors=(),
        look_alpha=None,
        chosen_among=1,
    )
    words = replace(RIGHT, name="words", direction="lower")
    facts = {"right": replace(RIGHT, is_directed=directed), "words": words, "other": replace(RIGHT, name="other")}
    scores = {
        name: tuple(Scores(column, column, column, none, none) for column in columns) for name in (*scored, "other")
    }
    return SectionInputs(
        plan=plan, answers=(), groups=[None] * 40, finished=True, alpha=0.05, facts=facts, scores=scores, clusters=None,
        stored=NoStoredDetails(),
    )  # fmt: skip


def test_each_directed_metric_that_is_compared_or_targeted_has_a_table():
    assert [table.metric for table in many_arms.compute(make_inputs(3))] == ["right", "words"]
    assert [table.metric for table in many_arms.compute(make_inputs(3, directed=False))] == ["words"]
    assert [table.metric for table in many_arms.compute(make_inputs(3, scored=["right"]))] == ["right"]


def test_two_arms_have_no_table():
    assert many_arms.compute(make_inputs(2)) is None


def test_at_a_stage_ranks_spend_its_share_of_alpha():
    inputs = make_inputs(3)
    [whole, _] = many_arms.compute(inputs)
    [stage, _] = many_arms.compute(replace(inputs, claims_alpha=0.01))

    assert whole.arms[0].interval == stage.arms[0].interval
    assert whole.arms[0].difference_interval.low > stage.arms[0].difference_interval.low
    assert stage.arms[0].difference_interval.level == 0.99


def test_the_table_begins_with_the_best():
    [table] = many_arms.view([TABLE], ()).tables

    assert table.heads == ("arm by right", "estimate [95 %]", "n", "lost", "rank [possible]", "from the best")
    assert [row.cells for row in table.rows] == [
        ("v2", "0.625 [0.500, 0.750]", "100", "0", "1 [1, 2]", "the best"),
        ("v1", "0.500 [0.500, 0.750]", "100", "2", "2 [1, 3]", "-0.125 [-0.250, +0.000]"),
        ("v3", "unknown", "0", "100", "- [2, 3]", ""),
    ]
    assert table.note == (
        "Ranks and differences hold for all arms together (95 %), on the 98 common samples; "
        "ranks also whatever the 2 lost samples would score."
    )


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (TABLE, "right: not proven worse than the best of 3 arms: v1, v2"),
        (replace(TABLE, reason="4 clusters"), "right: the 3 arms are not ranked: 4 clusters"),
        (replace(TABLE, arms=(FIRST, SECOND)), "right: none of the 2 arms is proven worse than the best"),
        (
            replace(TABLE, arms=(*[replace(FIRST, arm=f"a{k}") for k in range(12)], THIRD)),
            "right: not proven worse than the best of 13 arms: a0, a1, a2, a3, a4, a5, a6, a7 and 4 more",
        ),
    ],
)
def test_the_sentence_names_the_arms_that_may_be_the_best(table, sentence):
    [note] = many_arms.view([table], ()).notes

    assert note.text == sentence


def test_amounts_are_shown_as_ratios():
    """A latency of 2 seconds against 1 is worse by log 2."""
    slow = replace(FIRST, difference=-np.log(2), difference_interval=replace(BELOW, low=-np.log(4), high=0.0))
    table = replace(TABLE, arms=(slow, SECOND), direction="lower", by_ratio=True)
    view = many_arms.view([table], ())

    assert view.tables[0].heads[-1] == "ratio to the best"
    assert view.tables[0].rows[1].cells[-1] == "2.0 [1.0, 4.0]"
    document = view.document[0]["arms"][0]
    assert document["difference"] is None
    assert document["ratio"] == pytest.approx({"value": 2.0, "low": 1.0, "high": 4.0})


def test_the_document_has_every_arm_in_the_order_of_the_plan():
    [document] = many_arms.view([TABLE], ()).document

    assert document["not_proven_worse"] == ["v1", "v2"]
    assert document["best"] == "v2"
    assert document["arms"][0] == {
        "arm": "v1", "value": 0.5, "low": 0.5, "high": 0.75, "n": 100, "lost": 2, "rank": 2, "best_rank": 1,
        "worst_rank": 3, "p_worse": None, "difference": -0.125, "difference_low": -0.25, "difference_high": 0.0,
        "ratio": None,
    }  # fmt: skip
    assert many_arms.view([replace(TABLE, reason="4 clusters")], ()).document[0]["not_proven_worse"] is None
