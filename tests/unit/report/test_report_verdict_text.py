"""A verdict as one sentence, and the plan of an experiment."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_crucible.records import Contrast, DetectableEffect
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.report.plan_lines import announcement
from pytest_crucible.report.verdict_text import sentence


def test_a_target_sentence_has_its_numbers(run):
    whole = run()

    assert sentence(whole.verdicts[0], whole.experiments[0], 1) == (
        "met: 0.810 [0.750, 0.858] n=200; unproven: one-sided bound 0.76 < target 0.80; "
        "proof needs about n=12,000 at this estimate (80 % power)"
    )


def test_a_comparison_sentence_has_its_numbers(run):
    whole = run()

    assert sentence(whole.verdicts[2], whole.experiments[0], 1) == (
        "missed: -0.035 [-0.087, +0.016] n=198, p 0.180; a regression is proven"
    )


def test_a_p_value_is_called_adjusted_only_beside_others(run):
    whole = run()

    assert "n=198, adjusted p 0.180 (interval unadjusted); " in sentence(whole.verdicts[2], whole.experiments[0], 2)


def test_an_unmeasured_claim_has_its_reason(run):
    whole = run()
    unscored = dataclasses.replace(whole.verdicts[0], subject="typo >= 1", state="undecided", reason="no number")

    assert sentence(unscored, whole.experiments[0], 1) == "undecided: no number"


def test_an_error_in_the_suite_is_named(run):
    whole = run()
    unscored = dataclasses.replace(
        whole.verdicts[0], subject="typo >= 1", state="undecided", reason="no number", suite_error=True
    )

    assert sentence(unscored, whole.experiments[0], 1) == "error in the suite: no number"


def test_scripted_replies_are_marked_as_simulated(run, analysis, plan):
    arms = tuple(dataclasses.replace(arm, simulated=True) for arm in plan().arms)
    whole = run(analysis(plan(arms=arms)))

    assert sentence(whole.verdicts[1], whole.experiments[0], 1).startswith(
        "met (simulated): 1.250 [1.100, inf] n=198; "
    )


def foresight(
    detectable=0.0617, unit="points", needed=None, assumption="10 % of pairs differ", units=200, **contrast
) -> DetectableEffect:
    return DetectableEffect(
        contrast=Contrast(**{"metric": "exact", "baseline": "v1", **contrast}), detectable=detectable, unit=unit,
        assumption=assumption, needed=needed, units=units,
    )  # fmt: skip


ARMS = "crucible: test_sums: v2 vs v1, 200 samples x 2 arms = 400 replies"
ASSUMED = "  (80 % power, if 10 % of pairs differ)"


@pytest.mark.parametrize(
    ("facts", "effects", "lines"),
    [
        ({}, [], [ARMS]),
        ({}, [foresight()], [ARMS, "  exact: can detect differences of 6.2 points or more", ASSUMED]),
        (
            {},
            [foresight(needed=1396, alternative="non-inferior", margin=0.02)],
            [
                ARMS,
                "  exact: margin 0.02 needs about n=1,396",
                ASSUMED,
            ],
        ),
        (
            {},
            [foresight(needed=200, relevant=0.1)],
            [
                ARMS,
                "  exact: can detect differences of 6.2 points or more; enough samples for the",
                "    relevant 0.1",
                ASSUMED,
            ],
        ),
        (
            {},
            [foresight(needed=201, relevant=0.1, detectable=None)],
            [ARMS, "  exact: too few samples for the relevant 0.1, which needs about n=201", ASSUMED],
        ),
        (
            # What counts is the slice, not the session.
            {},
            [foresight(needed=101, relevant=0.1, detectable=None, units=40)],
            [ARMS, "  exact: too few samples for the relevant 0.1, which needs about n=101", ASSUMED],
        ),
        (
            {"groups": 40},
            [foresight(needed=201, relevant=0.1, is_relative=True, detectable=None, units=40)],
            [
                "crucible: test_sums: v2 vs v1, 200 samples in 40 groups x 2 arms = 400 replies",
                "  exact: too few groups for the relevant 10 %, which needs about groups=201",
                ASSUMED,
            ],
        ),
        (
            {},
            [foresight(relevant=5)],
            [ARMS, "  exact: can detect differences of 6.2 points or more", ASSUMED],
        ),
        (
            {},
            [foresight(detectable=0.199, unit="sd"), foresight(baseline="v0")],
            [ARMS, "  exact: can detect differences of 0.2 sd or more", ASSUMED],
        ),
        (
            {},
            [foresight(metric=metric) for metric in ("a", "b")]
            + [foresight(detectable=0.199, unit="standard deviations", assumption="")],
            [
                ARMS,
                "  a: can detect differences of 6.2 points or more",
                "  b: can detect differences of 6.2 points or more",
                ASSUMED,
                "  exact: can detect differences of 0.2 standard deviations or more",
                "  (80 % power)",
            ],
        ),
        ({}, [foresight(detectable=None)], [ARMS, "  exact: too few samples to detect a difference", ASSUMED]),
        (
            {"selected": 50, "groups": 12, "repeats": 3},
            [foresight(detectable=None)],
            [
                "crucible: test_sums: v2 vs v1, 50 of 200 samples in 12 groups x 3 repeats x 2",
                "    arms = 300 replies",
                "  exact: too few groups to detect a difference",
                ASSUMED,
            ],
        ),
        (
            {"groups": 3},
            [foresight()],
            [
                "crucible: test_sums: v2 vs v1, 200 samples in 3 groups x 2 arms = 400 replies",
                "  exact: 3 groups are too few to compare by, 5 at least",
            ],
        ),
    ],
    ids=[
        "plain",
        "bits",
        "margin",
        "resolves",
        "relevant",
        "relevant-slice",
        "relevant-groups",
        "unplanned",
        "scores",
        "assumptions",
        "nothing",
        "parts",
        "few-groups",
    ],
)
def test_an_experiment_is_announced_with_a_line_for_each_metric(plan, facts, effects, lines):
    assert announcement(plan(**facts), effects).splitlines() == lines


def test_the_slices_of_a_field_share_a_line_where_they_are_many(plan):
    by = By((Field("topic"),))
    effects = [foresight(k / 100 if k > 20 else None, by=by, slice=f"t{k}") for k in range(19, 26)]

    assert announcement(plan(), [*effects, foresight()]).splitlines() == [
        ARMS,
        "  exact by topic, 7 slices: can detect differences of 21 points or more at best,",
        "    of 25 points or more at worst; 2 slices have too few samples to detect a",
        "    difference",
        "  (80 % power)",
        "  exact: can detect differences of 6.2 points or more",
        ASSUMED,
    ]
    assert len(announcement(plan(), effects[:6]).splitlines()) == 8
    margins = [foresight(None, needed=100 + k, margin=0.05, by=by, slice=f"t{k}") for k in range(7)]
    assert announcement(plan(), margins).splitlines()[1] == (
        "  exact by topic, 7 slices: margin 0.05 needs about n=106 in each"
    )


@pytest.mark.parametrize("name", ["x" * 300, "https-host-" * 30, "a name of words " * 20])
def test_no_line_of_a_plan_is_wider_than_80_columns(plan, name):
    arms = tuple(dataclasses.replace(arm, name=name) for arm in plan().arms)
    lines = announcement(plan(arms=arms), [foresight(metric=name, needed=1396, margin=0.02)], [name], replayed=True)

    assert max(map(len, lines.splitlines())) <= 80
    assert "".join(lines.split()).count("".join(name.split())) == 4


def test_stored_replies_are_not_counted_as_requests(plan):
    v2, v1 = plan().arms
    stored = dataclasses.replace(v1, name="run:f00", stored_run="f00")
    named = "crucible: test_sums: v2 vs"

    assert announcement(plan(arms=(v2, stored)), []) == f"{named} run:f00, 200 samples"
    assert announcement(plan(arms=(v2, v1, stored)), []) == (
        f"{named} v1 vs run:f00, 200 samples x 2 arms = 400 replies"
    )


def test_unused_baselines_are_named(plan):
    assert announcement(plan(arms=plan().arms[:1]), [], ["v1", "v0"]) == (
        "crucible: test_sums: v2, 200 samples\n"
        "  v1, v0 not queried: the test compares nothing (@pytest.mark.ab_compare)"
    )


def test_a_plan_of_one_arm_shows_no_product(plan):
    assert announcement(plan(arms=plan().arms[:1]), []) == "crucible: test_sums: v2, 200 samples"
