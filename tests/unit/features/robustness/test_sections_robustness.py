"""The section on robustness: rows of attacks and the control, claims of single attacks alone, and notes."""

from __future__ import annotations

from pytest_crucible.features.robustness import section as robustness
from pytest_crucible.features.robustness.drops import Drop, Share
from pytest_crucible.features.robustness.records import Robustness
from pytest_crucible.features.robustness.section import Robustness as Result
from pytest_crucible.measures.row import Measured
from pytest_crucible.records import Claim
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.stats.interval import Interval


class PlanOf:
    """The parts of a plan that the section shows."""

    look_alpha = None

    def __init__(self, **facts):
        self.features = {"robustness": to_plain(Robustness(attacks=(), controls=1, **facts))}


def measurement(value, half=0.1):
    return Measured(value, Interval(low=value - half, high=value + half, level=0.95, method="t"), None, "paired t")


def drop(attack, value, p_value=0.5, **facts):
    levels = {"clean": measurement(0.9), "attacked": measurement(0.9 - value), "drop": measurement(value)}
    return Drop(metric="ok", attack=attack, arm="v2", p_value=p_value, n=40, inapplicable=2, lost=1, **levels, **facts)


def result(*drops, shares=(), certificates=None, **facts):
    return Result(
        plan=PlanOf(**facts), alpha=0.05, drops=drops, breakages=(), shares=shares, certificates=certificates or {}
    )


def test_only_single_attacks_are_claims_and_none_can_fail_the_session():
    of = result(drop("homoglyph", 0.3, 0.001), drop("control", 0.0), drop("worst", 0.5), drop("worst of control", 0.2))

    (claim,) = robustness.claims(of)
    assert (claim.subject, claim.p_value, claim.fails) == ("homoglyph changes ok of v2", 0.001, False)


def test_both_levels_stand_beside_the_drop():
    of = result(drop("homoglyph", 0.3, simultaneous=measurement(0.3, 0.2)), drop("control", 0.0))
    view = robustness.view(of, [Claim(subject="x", p_value=0.5, p_adjusted=0.25)])

    assert view.tables[0].rows[0].cells == (
        "homoglyph",
        "v2",
        "0.900",
        "0.600",
        "+0.300 [+0.200, +0.400]",
        "40",
        "2",
        "1",
        "0.250",
    )
    assert view.tables[0].rows[1].cells[-1] == "-"
    assert view.notes[0].text.endswith("+0.300 [+0.100, +0.500], an interval that holds for all drops at once")
    assert view.document["drops"][0]["p_adjusted"] == 0.25
    assert [point.label for point in view.charts[0].points] == ["homoglyph, v2", "control, v2"]


def test_injections_certificates_labels_and_what_is_not_run_are_shown():
    share = Share(metric="obeyed", attack="prompt_injection_basic", arm="v2", share=measurement(0.2), n=30, lost=0)
    of = result(
        shares=(share,),
        certificates={"v2": {-1: 2, 0: 3, 2: 5}, "lost": {}},
        kept={"homoglyph": {"a": True, "b": False, "c": True}},
        not_run={"semantic_paraphrase": "no model", "control": "no model"},
    )
    view = robustness.view(of, [])

    assert view.tables[0].rows[0].cells == ("prompt_injection_basic", "v2", "0.200 [0.100, 0.300]", "30", "0")
    assert view.tables[1].rows[0].cells == ("v2", "0.800", "0.500", "0.500", "10")
    assert view.tables[1].rows[1].cells == ("lost", "unknown", "unknown", "unknown", "0")
    assert [note.text[:45] for note in view.notes] == [
        "semantic_paraphrase is not run: no model",
        "homoglyph: the expected answer is kept in 0.6",
    ]
