"""Drops by slice, and drops of a judge's metric that labels correct."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Scores, scores
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.features.robustness import labelled_drops as drops_by_slice
from pytest_crucible.features.robustness.drops import VariantData
from pytest_crucible.features.robustness.labelled_drops import (
    correct_drops,
    corrected_document,
    corrected_notes,
    corrected_tables,
    slice_document,
    slice_drops,
    slice_note,
    slice_table,
)
from pytest_crucible.features.robustness.records import PlannedAttack, Robustness
from pytest_crucible.records import Arm, ArmOutcomes, Draws, MetricFacts, ScoreColumns
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs
from pytest_crucible.stats.slices.slicing import Slicing

N = 200
ONE_REPLY = Draws()
FACTS = MetricFacts(name="right", kind="bounded", low=0.0, high=1.0)


class PlanOf:
    """The parts of a plan that drops need."""

    arms = (Arm(name="v2", role="candidate", adapter="v2", identity="v2"),)
    variants = (SimpleNamespace(name="homoglyph"),)
    random_factors = ()
    attack = PlannedAttack(name="homoglyph", attack="homoglyph", kind="characters", strength=0.1, draws=1)
    features = {"robustness": to_plain(Robustness(attacks=(attack,), controls=0))}  # noqa: RUF012

    look_alpha = None

    def __init__(self, table=ONE_REPLY):
        self.table = table

    def draws(self, arm):
        return self.table


def answers(judged, labels=(), metric="right"):
    """Return the outcomes of replies that a judge scored (samples x repeats), and of which some have a label."""
    judged = np.asarray(judged, dtype=float).reshape(len(judged), -1)
    rows = [(k, 0, json.dumps(["x", "y", float(label)])) for k, label in enumerate(labels) if not np.isnan(label)]
    positions, repeats = (axis.ravel().tolist() for axis in np.indices(judged.shape))
    values, size = judged.ravel().tolist(), judged.size
    column = ScoreColumns(positions=positions, repeats=repeats, values=values, is_bool=[False] * size)
    return ArmOutcomes(
        positions=positions, repeats=repeats, failures=[None] * size, skipped=[False] * size, scores={metric: column},
        labels=frozenset(), judge_texts={f"{metric}.human": rows}, lost=[],
    )  # fmt: skip


@pytest.fixture
def replies():
    """True qualities of 200 clean and attacked replies, and a judge that calls every third bad attacked reply good."""
    draw = np.random.default_rng(3)
    clean, attacked = (draw.random(N) < 0.9).astype(float), (draw.random(N) < 0.5).astype(float)
    return clean, attacked, np.where(np.arange(N) % 3 == 0, 1.0, attacked)


def correct(clean, attacked, clean_labels, attacked_labels, clusters=None, table=ONE_REPLY):
    of_clean, of_attacked = answers(clean, clean_labels), answers(attacked, attacked_labels)
    originals = {"right": (scores(FACTS, of_clean, samples=N, repeats=table.size),)}
    attributes = SampleAttributes(clusters)
    data = VariantData(PlanOf(table), {"right": FACTS}, originals, {"homoglyph": (of_attacked,)}, attributes, N, 0.05)
    return list(correct_drops(data, (of_clean,), ["right"]))


def only(values, chosen):
    return np.where(chosen, values, np.nan)


def test_labels_of_both_replies_correct_the_drop(replies):
    clean, attacked, judged = replies
    chosen = np.arange(N) < 60
    level, drop = correct(clean, judged, only(clean, chosen), only(attacked, chosen))

    assert (level.attack, level.value) == ("", pytest.approx(clean.mean(), abs=0.05))
    expected = stats.ppi_mean(
        (clean - attacked)[chosen], (clean - judged)[chosen], (clean - judged)[~chosen], bounds=(-1, 1)
    )
    assert (drop.attack, drop.value, drop.interval) == ("homoglyph", expected.estimate, expected.interval)
    # The judge hides a part of the drop.
    truth = (clean - attacked).mean()
    assert drop.judged < drop.interval.low < truth < drop.interval.high
    (table,) = corrected_tables([level, drop], 0.05)
    assert [row.cells[0] for row in table.rows] == ["clean", "drop under homoglyph"]
    assert list(corrected_notes([level, drop])) == []
    assert (corrected_document(level)["attack"], corrected_document(drop)["labelled"]) == (None, 60)


def test_labels_of_clean_replies_alone_correct_no_drop(replies):
    clean, _, judged = replies
    (level,) = correct(clean, judged, only(clean, np.arange(N) < 60), np.full(N, np.nan))

    assert (level.attack, level.labelled, level.rest) == ("", 60, 140)
    (note,) = corrected_notes([level])
    assert note.text.startswith("the labels of right of v2 are of clean replies alone")


def test_where_all_are_labelled_the_labels_decide(replies):
    clean, attacked, judged = replies
    (drop,) = correct(clean, judged, clean, attacked)

    assert drop.value == pytest.approx((clean - attacked).mean())
    assert (drop.rest, drop.method[:6]) == (0, "labels")


def test_groups_are_the_clusters_of_the_correction(replies):
    clean, attacked, judged = replies
    chosen, groups = np.arange(N) < 60, np.arange(N) // 4
    labels = only(clean, chosen), only(attacked, chosen)
    level, drop = correct(clean, judged, *labels, clusters=groups)

    split = groups[chosen], groups[~chosen]
    expected = stats.ppi_mean(
        (clean - attacked)[chosen], (clean - judged)[chosen], (clean - judged)[~chosen], bounds=(-1, 1), clusters=split
    )
    assert (drop.value, drop.interval) == (expected.estimate, expected.interval)
    assert "clustered" in level.method
    (uncorrected,) = correct(clean, judged, *labels, clusters=np.arange(N) // 20)
    (note,) = corrected_notes([], [uncorrected])
    assert note.text == "the labels of right of v2 correct nothing: 3 clusters with labels: expected at least 5"


def test_of_several_replies_the_first_one_has_the_label(replies):
    """The judge's errors are those on first replies, and its drop is that of all replies."""
    clean, attacked, judged = replies
    chosen = np.arange(N) < 60
    labels = only(clean, chosen), only(attacked, chosen)
    repeated = np.stack([judged, attacked, attacked], axis=1)
    _, drop = correct(np.stack([clean] * 3, axis=1), repeated, *labels, table=Draws(repeats=3))

    rest = clean - repeated.mean(axis=1)
    expected = stats.ppi_mean((clean - attacked)[chosen], (clean - judged)[chosen], rest[~chosen], bounds=(-1, 1))
    assert (drop.value, drop.interval) == (pytest.approx(expected.estimate), expected.interval)
    assert drop.judged == pytest.approx(rest.mean())
    (uncorrected,) = correct(np.stack([clean] * 3, axis=1), repeated, *labels, table=Draws(rounds=3))
    assert "several prompts, trainings or rounds" in uncorrected.reason


OK_FACTS = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
FEW = 20
TOPIC = By((Field("topic"),))


def slice_tables(codes, names, groups=(None,) * FEW):
    """Return the tables where all is right as it is, and attacks break the first half of the samples."""
    clean, attacked = np.ones(FEW), np.arange(FEW) >= FEW // 2
    scores = Scores(clean, clean, clean, np.zeros(FEW, bool), np.zeros(FEW, bool))
    answered = answers(attacked, metric="ok")
    plan, facts = PlanOf(), {"ok": OK_FACTS}
    variants = {"homoglyph": (answered,)}
    inputs = SectionInputs(
        plan=plan, answers=(), groups=groups, finished=True, alpha=0.05, facts=facts, scores={"ok": (scores,)},
        clusters=None, stored=NoStoredDetails(), slicings={TOPIC: Slicing(codes=np.array(codes), names=names)},
        variants=variants,
    )  # fmt: skip
    data = VariantData(plan, facts, {"ok": (scores,)}, variants, SampleAttributes(), FEW, 0.05)
    return list(slice_drops(inputs, data, ["ok"]))


def test_an_attack_that_hurts_one_slice_is_seen_there():
    (by_topic,) = slice_tables([0] * 10 + [1] * 8 + [-1] * 2, ("law", "sport"))
    table = slice_table(by_topic)

    assert [row.cells[:5] for row in table.rows] == [
        ("homoglyph", "law", "v2", "1.000", "0.000"),
        ("homoglyph", "sport", "v2", "1.000", "1.000"),
    ]
    law, sport = slice_document(by_topic)
    assert (law["field"], law["slice"], law["drop"]) == ("topic", "law", 1)
    assert (law["n"], sport["drop"], sport["n"]) == (10, 0, 8)
    assert law["low"] > 0.3
    assert sport["low"] < 0 < sport["high"]
    assert "not adjusted" in table.note
    assert table.verbosity == 1


def test_a_field_with_one_slice_that_has_scores_has_no_table_and_groups_have_one():
    assert slice_tables([0] * FEW, ("law", "empty")) == []
    (by_group,) = slice_tables([0] * FEW, ("law",), groups=["a", "b"] * 10)
    assert (by_group.field, [name for name, _ in by_group.drops]) == ("group", ["a", "b"])


def test_too_many_drops_are_left_out_with_a_note(monkeypatch):
    monkeypatch.setattr(drops_by_slice, "MOST_DROPS", 1)
    (left_out,) = slice_tables([0] * 10 + [1] * 10, ("law", "sport"))

    assert left_out.drops == ()
    assert slice_note(left_out).text.startswith("drops of ok by topic are left out")
