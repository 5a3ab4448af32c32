"""Sections by slice: decisions with what cannot hold together, each arm's gap, invariance, and the search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answer_builders import Samples, analysis_inputs, arm

from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.features.slices import fairness_section, search_section, section
from pytest_crucible.features.slices.decisions import decision as declare
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import PlannedVariant, Sample, ScoreColumns
from pytest_crucible.sections.inputs import section_inputs

SEX = [{"sex": "f"}] * 100 + [{"sex": "m"}] * 100
DESERVING = [True] * 20 + [False] * 80 + [True] * 60 + [False] * 40


class Stored(Samples):
    def __init__(self, metadata):
        self.metadata = metadata

    def all_samples(self):
        return [Sample(id=f"q{k}", input=f"text {k}", metadata=each) for k, each in enumerate(self.metadata)]


def decisions(selected, stated=None, failures=None):
    columns = {
        "selected": list(selected),
        "correct": [a == b for a, b in zip(selected, DESERVING, strict=True)],
        "true_positive": [a if b else None for a, b in zip(selected, DESERVING, strict=True)],
        "false_positive": [None if b else a for a, b in zip(selected, DESERVING, strict=True)],
    }
    return arm(failures=failures, **columns, **({} if stated is None else {"stated_probability": stated}))


def inputs_by(*arms, targets=(), contrasts=(), metadata=SEX, **changes):
    inputs = analysis_inputs(*arms, targets=targets, contrasts=contrasts)
    inputs = replace(inputs, metadata=metadata, expected=[None] * len(metadata), **changes)
    return section_inputs(inputs, score_table(inputs), Stored(metadata), alpha=0.05)


def test_decisions_have_rates_differences_and_a_warning():
    stated = [0.9 if deserving else 0.2 for deserving in DESERVING]
    (result,) = fairness_section.compute(
        inputs_by(decisions(DESERVING, stated), targets=["gap(selected by sex) <= 0.1"])
    )

    view = fairness_section.view([result], ())

    assert result.rates[0].rates["base_rate"] == 0.2
    assert (result.reference, result.differences[0].name) == ("f", "m")
    assert result.differences[0].demographic_parity == pytest.approx(0.4)
    assert dict(result.reliability)["f"].auroc == 1.0
    assert "equalized odds and predictive parity cannot both hold unless decisions are perfect" in view.notes[0].text
    titles = ["Decisions of v2 by sex", "Stated probabilities of v2 by sex", "Reliability of v2 by sex"]
    assert [table.title for table in view.tables] == titles
    assert view.document[0]["slices"][1]["selected"] == 0.6
    assert view.document[0]["theil"] == 0.0


def test_probabilities_that_only_their_distances_are_left_of_are_not_rebuilt():
    """Runs of earlier builds: (0.3 - 1) + 1 is not 0.3."""
    earlier = decisions(DESERVING)
    distances = arm(overconfidence=[0.3 - deserving for deserving in DESERVING]).scores
    earlier = replace(earlier, scores={**earlier.scores, **distances})

    (result,) = fairness_section.compute(inputs_by(earlier, targets=["gap(selected by sex) <= 0.1"]))
    view = fairness_section.view([result], ())

    assert view.document[0]["reliability"] is None
    assert "probabilities as v2 stated them: not stored by this run" in view.notes[-1].text
    assert [table.title for table in view.tables] == ["Decisions of v2 by sex"]


def test_a_failed_reply_states_no_probability():
    metrics = [each.facts for each in declare(str, favourable="yes", confidence=float)]
    answered = decisions(DESERVING, [0.2] * 200, failures={0: "boom"})
    inputs = analysis_inputs(answered, targets=["gap(selected by sex) <= 0.1"], metrics=metrics)
    inputs = replace(inputs, metadata=SEX, expected=[None] * 200)

    (result,) = fairness_section.compute(section_inputs(inputs, score_table(inputs), Stored(SEX), alpha=0.05))

    assert [(part.n, part.confidence) for part in dict(result.reliability)["f"].bins] == [(99, pytest.approx(0.2))]


def test_each_repeat_has_its_own_probability():
    first, second = decisions(DESERVING, [0.2] * 200), decisions(DESERVING, [0.8] * 200)
    inputs = analysis_inputs(in_repeats(first, second), targets=["gap(selected by sex) <= 0.1"], n=200)
    plan = replace(inputs.plan, repeats=2)
    inputs = replace(inputs, plan=plan, metadata=SEX, expected=[None] * 200)

    (result,) = fairness_section.compute(section_inputs(inputs, score_table(inputs), Stored(SEX), alpha=0.05))

    of_women = dict(result.reliability)["f"]
    assert [(part.n, part.confidence) for part in of_women.bins] == [
        (100, pytest.approx(0.2)),
        (100, pytest.approx(0.8)),
    ]


def in_repeats(*arms):
    """Return the outcomes of an arm whose repeats are these."""
    columns = {name: [each.scores[name] for each in arms] for name in arms[0].scores}
    return replace(
        arms[0],
        positions=[position for each in arms for position in each.positions],
        repeats=[repeat for repeat, each in enumerate(arms) for _ in each.positions],
        failures=[None] * 200 * len(arms),
        skipped=[False] * 200 * len(arms),
        scores={
            name: ScoreColumns(
                positions=[position for column in parts for position in column.positions],
                repeats=[repeat for repeat, column in enumerate(parts) for _ in column.positions],
                values=[value for column in parts for value in column.values],
                is_bool=[flag for column in parts for flag in column.is_bool],
            )
            for name, parts in columns.items()
        },
    )


def test_equal_base_rates_need_no_warning():
    (result,) = fairness_section.compute(
        inputs_by(
            decisions(DESERVING),
            targets=["gap(selected by sex) <= 0.1"],
            metadata=[{"sex": "fm"[k % 2]} for k in range(200)],
        )
    )

    assert result.base_rates == ""
    assert fairness_section.view([result], ()).notes == ()


def test_without_the_metrics_of_a_decision_there_is_nothing():
    assert fairness_section.compute(inputs_by(arm(ok=DESERVING), targets=["gap(ok by sex) <= 0.1"])) is None


def test_slices_are_worst_first_and_each_arm_has_its_gap():
    contrast = replace(parse_contrast("gap(correct by sex)"), baseline="v1")
    inputs = inputs_by(decisions([True] * 200), decisions([False] * 200), contrasts=[contrast])

    result = section.compute(inputs)
    view = section.view(result, ())

    assert [entry.name for entry in result.fields[0].slices] == ["f", "m"]
    assert [(gap.arm, gap.extreme.value) for gap in result.gaps] == [
        ("v2", pytest.approx(0.4)),
        ("v1", pytest.approx(0.4)),
    ]
    assert view.tables[0].heads == ("arm", "correct", "of slices", "value", "n")
    assert view.document[0]["field"] == "sex"
    assert view.document[-1]["expression"] == "gap(correct by sex)"


def test_changes_between_versions_stand_beside_those_between_repeats():
    originals, others = [True] * 150 + [False] * 50, [True] * 140 + [False] * 40 + [True] * 20
    metadata = [{"twin": "male"}] * 200
    inputs = analysis_inputs(arm(ok=originals), targets=["gap(ok by twin) <= 0.1"])
    variant = PlannedVariant(name="female", sha256="", samples=200)
    inputs = replace(inputs, plan=replace(inputs.plan, variants=(variant,)), variants={"female": (arm(ok=others),)},
                     metadata=metadata, expected=[None] * 200)  # fmt: skip

    (result,) = fairness_section.TWINS.compute(
        section_inputs(inputs, score_table(inputs), Stored(metadata), alpha=0.05)
    )

    assert (result.first, result.second, result.n, result.between_repeats) == ("male", "female", 200, None)
    assert (result.better_as_first, result.better_as_second) == (0.05, 0.1)
    assert (
        "15.0% of 200 prompts (5.0% better as male, 10.0% as female)"
        in fairness_section.TWINS.view([result], ()).notes[0].text
    )


def test_the_search_names_the_slice_and_samples_to_read():
    ours, theirs = [True] * 200, [True] * 150 + [False] * 50
    metadata = [{"kind": "easy"}] * 150 + [{"kind": "hard"}] * 50
    contrast = replace(parse_contrast("ok"), baseline="v1")

    result = search_section.compute(inputs_by(arm(ok=ours), arm(ok=theirs), contrasts=[contrast], metadata=metadata))

    names = [finding.slice for finding in result.findings]
    hard = next(finding for finding in result.findings if finding.slice == "kind = hard")
    assert "kind = hard" in names
    assert (hard.n, hard.inside, hard.outside, hard.samples) == (50, 1.0, 0.0, ("q150", "q151", "q152"))
    assert search_section.view(result, ()).tables[0].rows


def test_a_run_with_too_many_samples_says_that_it_was_not_searched(monkeypatch):
    monkeypatch.setattr(search_section, "MOST_SAMPLES", 100)
    contrast = replace(parse_contrast("ok"), baseline="v1")
    result = search_section.compute(inputs_by(arm(ok=[True] * 200), arm(ok=[True] * 200), contrasts=[contrast]))

    (note,) = search_section.view(result, ()).notes
    assert (
        note.text
        == "no slices were searched at the end of this run, of 200 samples: crucible show --why-better does it"
    )


def test_without_a_finding_the_difference_is_the_same_everywhere():
    same = [True, False] * 100
    contrast = replace(parse_contrast("ok"), baseline="v1")

    result = search_section.compute(inputs_by(arm(ok=same), arm(ok=same), contrasts=[contrast]))

    (note,) = search_section.view(result, ()).notes
    assert note.text == f"ok, v2 vs v1: the difference is the same everywhere ({result.searched} slices)"
    assert search_section.compute(inputs_by(arm(ok=same), targets=["ok >= 0.1"])) is None
