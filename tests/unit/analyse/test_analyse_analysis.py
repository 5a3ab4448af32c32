"""One experiment, whole: which estimates, targets and comparisons come out of stored answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.analyse.analysis import Given, analyse
from pytest_crucible.analyse.worst import HOW_MANY
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Analysis,
    Answers,
    Arm,
    Contrast,
    Fingerprint,
    Lost,
    MetricFacts,
    Plan,
    ScoreColumns,
)

NAMES = ("v2", "v1", "v0", "old")


def arm(labels: tuple[str, ...] = (), failures: dict[int, str] | None = None, **metrics) -> Answers:
    """Values by sample: a number, a bool, None (does not apply) or "lost"."""
    n = max((len(values) for values in metrics.values()), default=0)
    gone = [k for k in range(n) if metrics and all(values[k] == "lost" for values in metrics.values())]
    replied = [k for k in range(n) if k not in gone]
    scores, lost = {}, [Lost(0, k, 0, None, "error") for k in gone]
    for name, values in metrics.items():
        kept = [k for k, one in enumerate(values) if one != "lost" and k not in (failures or {})]
        lost += [Lost(0, k, 0, name, "scorer") for k, one in enumerate(values) if one == "lost" and k not in gone]
        scores[name] = ScoreColumns(
            positions=kept,
            epochs=[0] * len(kept),
            values=[None if values[k] is None else float(values[k]) for k in kept],
            is_bool=[isinstance(values[k], bool) for k in kept],
        )
    return Answers(
        positions=replied,
        epochs=[0] * len(replied),
        failures=[(failures or {}).get(k) for k in replied],
        skipped=[False] * len(replied),
        scores=scores,
        lost=lost,
        labels=frozenset(labels),
    )


def analysed(
    *arms: Answers, targets=(), contrasts=(), metrics=(), groups=None, n=None, known=None, selected=None, questions=None
) -> Analysis:
    n = n or max(len(one.positions) + sum(gone.metric is None for gone in one.lost) for one in arms)
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=n, selected=selected or n,
        groups=None, epochs=1, metrics=tuple(metrics), targets=tuple(map(parse_target, targets)),
        contrasts=tuple(contrasts), open_metrics=True,
        arms=tuple(
            Arm(name=name, role="baseline" if k else "candidate", adapter=name, identity=name)
            for k, name in enumerate(NAMES[: len(arms)])
        ),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
    )  # fmt: skip
    given = Given(plan=plan, answers=arms, groups=groups or [None] * n, finished=True, known_kinds=known or {})
    return analyse(given, alpha=0.05, questions=len(contrasts) if questions is None else questions)[0]


def test_every_metric_is_estimated_in_every_arm():
    one = analysed(arm(a=[True, False], b=[1.0, 2.0]), arm(a=[True, True], b=[3.0, 2.0]))

    assert [(est.metric, est.arm, est.value) for est in one.estimates] == [
        ("a", "v2", 0.5), ("a", "v1", 1.0), ("b", "v2", 1.5), ("b", "v1", 2.5),
    ]  # fmt: skip
    assert one.kinds == {"a": "binary", "b": "unbounded"}


def test_targets_are_about_the_candidate_alone():
    one = analysed(arm(a=[True, False]), arm(a=[False, False]), targets=["a >= 0.5"])

    assert [(result.estimate.arm, result.estimate.value) for result in one.targets] == [("v2", 0.5)]


def test_each_contrast_is_against_its_own_baseline():
    arms = [arm(a=[True, True, False]), arm(a=[True, False, False]), arm(a=[False, False, False])]
    contrasts = [Contrast(metric="a", baseline=name) for name in ("v0", "v1")]
    one = analysed(*arms, contrasts=contrasts)

    assert [pair.difference for pair in one.comparisons] == pytest.approx([2 / 3, 1 / 3])


def test_the_kind_is_that_of_all_arms_together():
    """The candidate happened to give only zeros and ones; the method is that of numbers in both."""
    one = analysed(
        arm(a=[1.0, 0.0, 1.0]), arm(a=[0.5, 0.0, 1.0]), arm(a=[True, False, True]),
        contrasts=[Contrast(metric="a", baseline="v0")],
    )  # fmt: skip

    assert one.kinds == {"a": "unbounded"}
    assert one.comparisons[0].method == "paired t"


def test_the_kind_is_that_of_earlier_runs():
    one = analysed(arm(a=[True, False]), known={"a": "unbounded"})

    assert one.kinds == {"a": "unbounded"}
    assert one.estimates[0].method == "t"


def test_text_is_kept_out_of_the_numbers():
    one = analysed(arm(labels=("topic",), a=[True, False]))

    assert one.kinds == {"a": "binary", "topic": "text"}
    assert [est.metric for est in one.estimates] == ["a"]


def test_what_nothing_scored_has_no_result():
    one = analysed(arm(a=[True]), targets=["typo >= 0.5"], contrasts=[])

    assert one.targets == ()


def test_a_declared_metric_of_which_every_sample_failed_is_at_its_worst():
    facts = MetricFacts(name="a", kind="binary", low=0.0, high=1.0)
    failing = replace(arm(b=[1.0, 1.0], failures={0: "timeout", 1: "truncated"}), scores={})
    one = analysed(failing, metrics=[facts], targets=["a >= 0.5"], n=2)

    assert (one.targets[0].estimate.value, one.targets[0].estimate.n) == (0.0, 2)
    assert one.failures == {"v2": {"timeout": 1, "truncated": 1}}


def test_losses_are_counted_by_reason_and_the_never_asked_among_them():
    one = analysed(arm(a=[True, "lost", True], b=["lost", "lost", 1.0]), arm(a=[True, True, True]), n=5)

    assert one.lost == {"v2": {"error": 1, "scorer": 1, "unasked": 2}, "v1": {"unasked": 2}}


def test_what_was_not_selected_is_said_to_be_deselected():
    one = analysed(arm(a=[True, True, True]), n=5, selected=3)

    assert one.lost == {"v2": {"deselected": 2}}


def test_groups_make_clusters():
    values, groups = [True, True, False, True, False, False] * 2, list("aabbccddeeff")
    one = analysed(arm(a=values), arm(a=values), contrasts=[Contrast(metric="a", baseline="v1")], groups=groups)

    assert one.estimates[0].clusters == 6
    assert one.comparisons[0].clusters == 6


@pytest.mark.parametrize("groups", [list("abcd"), [None] * 4], ids=["each its own", "none"])
def test_groups_of_one_are_no_clusters(groups):
    one = analysed(arm(a=[True, True, False, True]), groups=groups)

    assert (one.estimates[0].clusters, one.estimates[0].method) == (None, "wilson")


def test_questions_of_the_whole_session_share_alpha():
    arms = [arm(a=[True, True, False, False] * 20), arm(a=[True, False, True, False] * 20)]
    contrast = [Contrast(metric="a", baseline="v1")]
    alone, among = (analysed(*arms, contrasts=contrast, questions=k).comparisons[0] for k in (1, 20))

    assert alone.detectable < among.detectable
    assert (alone.interval, alone.p_value) == (among.interval, among.p_value)


# -- worst samples ------------------------------------------------------------------------------------------------


def worst_of(*arms: Answers, **facts):
    n = len(arms[0].positions)
    plan = analysed(*arms, **facts).plan
    given = Given(plan=plan, answers=arms, groups=[None] * n, finished=True, known_kinds={})
    return analyse(given, alpha=0.05, questions=0)[1]


def test_the_worst_samples_are_those_that_fell_furthest_behind():
    found = worst_of(arm(a=[1.0, 2.0, 0.0, 9.0]), arm(a=[3.0, 2.0, 9.0, 1.0]))

    assert [(k, one.value, one.baseline_value) for k, one in found.items()] == [(2, 0.0, 9.0), (0, 1.0, 3.0)]


def test_without_a_baseline_they_are_the_lowest():
    found = worst_of(arm(a=[float(9 - k) for k in range(8)]))

    assert list(found) == [7, 6, 5, 4, 3]
    assert len(found) == HOW_MANY


def test_where_lower_is_better_they_are_the_highest():
    found = worst_of(arm(a=[1.0, 5.0, 3.0]), metrics=[MetricFacts(name="a", direction="lower")])

    assert list(found) == [1, 2, 0]


def test_what_is_lost_is_not_worth_reading():
    found = worst_of(arm(a=[1.0, None, 0.5]), arm(a=[2.0, 1.0, None]))

    assert list(found) == [0]
