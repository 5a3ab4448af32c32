"""Drops by slice: which fields get a table, and what stands in it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.features.robustness import section_tables as drops_by_slice
from pytest_crucible.features.robustness.drops import VariantData
from pytest_crucible.features.robustness.records import PlannedAttack, Robustness
from pytest_crucible.features.robustness.section_tables import slice_document, slice_drops, slice_note, slice_table
from pytest_crucible.records import Arm, ArmOutcomes, Draws, MetricFacts, ScoreColumns
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs
from pytest_crucible.stats.slices.slicing import Slicing

FACTS = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
N = 20
TOPIC = By((Field("topic"),))


class PlanOf:
    """The parts of a plan that drops need."""

    arms = (Arm(name="v2", role="candidate", adapter="v2", identity="v2"),)
    variants = (SimpleNamespace(name="homoglyph"),)
    random_factors = ()
    look_alpha = None
    attack = PlannedAttack(name="homoglyph", attack="homoglyph", kind="characters", strength=0.1, draws=1)
    features = {"robustness": to_plain(Robustness(attacks=(attack,), controls=0))}  # noqa: RUF012

    def draws(self, arm):
        return Draws()


def slice_tables(codes, names, groups=(None,) * N):
    """Return the tables where all is right as it is, and attacks break the first half of the samples."""
    clean, attacked = np.ones(N), np.arange(N) >= N // 2
    scores = Scores(clean, clean, clean, np.zeros(N, bool), np.zeros(N, bool))
    column = ScoreColumns(
        positions=list(range(N)), repeats=[0] * N, values=list(map(float, attacked)), is_bool=[True] * N
    )
    answers = ArmOutcomes(
        positions=list(range(N)), repeats=[0] * N, failures=[None] * N, skipped=[False] * N, scores={"ok": column},
        labels=frozenset(), lost=[],
    )  # fmt: skip
    plan, facts = PlanOf(), {"ok": FACTS}
    variants = {"homoglyph": (answers,)}
    inputs = SectionInputs(
        plan=plan, answers=(), groups=groups, finished=True, alpha=0.05, facts=facts, scores={"ok": (scores,)},
        clusters=None, stored=NoStoredDetails(), slicings={TOPIC: Slicing(codes=np.array(codes), names=names)},
        variants=variants,
    )  # fmt: skip
    data = VariantData(plan, facts, {"ok": (scores,)}, variants, SampleAttributes(), N, 0.05)
    return list(slice_drops(inputs, data, ["ok"]))


def test_an_attack_that_hurts_one_slice_is_seen_there():
    (by_topic,) = slice_tables([0] * 10 + [1] * 8 + [-1] * 2, ("law", "sport"))
    table = slice_table(by_topic)

    assert [row.cells[:5] for row in table.rows] == [
        ("homoglyph", "law", "v2", "1.000", "0.000"),
        ("homoglyph", "sport", "v2", "1.000", "1.000"),
    ]
    law, sport = slice_document(by_topic)
    assert (law["field"], law["slice"], law["drop"], law["n"], sport["drop"], sport["n"]) == (
        "topic",
        "law",
        1,
        10,
        0,
        8,
    )
    assert law["low"] > 0.3
    assert sport["low"] < 0 < sport["high"]
    assert "not adjusted" in table.note
    assert table.verbosity == 1


def test_a_field_with_one_slice_that_has_scores_has_no_table_and_groups_have_one():
    assert slice_tables([0] * N, ("law", "empty")) == []
    (by_group,) = slice_tables([0] * N, ("law",), groups=["a", "b"] * 10)
    assert (by_group.field, [name for name, _ in by_group.drops]) == ("group", ["a", "b"])


def test_too_many_drops_are_left_out_with_a_note(monkeypatch):
    monkeypatch.setattr(drops_by_slice, "MOST_DROPS", 1)
    (left_out,) = slice_tables([0] * 10 + [1] * 10, ("law", "sport"))

    assert left_out.drops == ()
    assert slice_note(left_out).text.startswith("drops of ok by topic are left out")
