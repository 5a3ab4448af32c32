"""Checks of metrics, comparisons and slices before a run."""

from __future__ import annotations

import math

import pytest
from plan_builders import arms_of

from pytest_crucible.datasets import identify
from pytest_crucible.measures.table import contrast_problem
from pytest_crucible.plan.design import PASSED, check_expected, contrasts_with_baselines, group_count, plan_metrics
from pytest_crucible.plan.targets import parse_contrast, parse_target, with_declarations
from pytest_crucible.records import Contrast, MetricFacts, NoTwin, Sample, Target, Twin
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import parse_amount
from pytest_crucible.records.serialize import from_plain, to_plain

ACCURACY = MetricFacts(name="accuracy", kind="binary", low=0, high=1)
TOPIC = MetricFacts(name="topic", kind="text")


def sizes_for(*facts, targets=(), compared=(), open_metrics=False):
    return plan_metrics(
        facts,
        [parse_target(text) for text in targets],
        [Contrast(metric=name, baseline="") for name in compared],
        open_metrics=open_metrics,
    )


# -- metrics ------------------------------------------------------------------------------------------------------


def test_declared_metrics_are_judged():
    assert sizes_for(ACCURACY, TOPIC, targets=["accuracy >= 0.8"], compared=["accuracy"]) == (ACCURACY, TOPIC)


def test_an_experiment_without_metrics_is_judged_by_what_passed():
    assert sizes_for() == (PASSED,)


@pytest.mark.parametrize("named", [{"targets": ["passed >= 0.9"]}, {"compared": ["passed"]}], ids=["target", "compare"])
def test_what_passed_is_judged_where_it_is_named(named):
    assert sizes_for(ACCURACY, **named) == (ACCURACY, PASSED)


def test_a_metric_that_is_called_passed_takes_its_place():
    own = MetricFacts(name="passed", kind="bounded", low=0, high=10)

    assert sizes_for(own, targets=["passed >= 9"]) == (own,)


@pytest.mark.parametrize("condition", ["accuracy >= 80", "accuracy < -1"])
def test_a_condition_that_holds_for_every_value_or_none_is_refused(condition):
    with pytest.raises(
        SpecError, match=f"counts where {condition}, but 'accuracy' lies between 0 and 1: write a value"
    ):
        sizes_for(ACCURACY, targets=[f"count({condition}) == 0"])


def test_a_function_that_scores_by_itself_may_name_what_nothing_declares():
    assert sizes_for(targets=["steps <= 3"], compared=["steps"], open_metrics=True) == ()


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"targets": ["acuracy >= 0.8"]},
         "target 'acuracy >= 0.8' names metric 'acuracy': did you mean 'accuracy'? this experiment has accuracy, topic"),
        ({"targets": ["f1 >= 0.8"]}, "target 'f1 >= 0.8' names metric 'f1': this experiment has accuracy, topic"),
        ({"compared": ["f1"]}, "ab_compare('f1') names metric 'f1': this experiment has accuracy, topic"),
        ({"targets": ["topic >= 0.8"]},
         "target 'topic >= 0.8' is about 'topic', which is text: name a metric of bool or numbers"),
        ({"compared": ["topic"], "open_metrics": True},
         "ab_compare('topic') is about 'topic', which is text: name a metric of bool or numbers"),
    ],
    ids=["near", "target", "comparison", "text-target", "text-comparison"],
)  # fmt: skip
def test_a_metric_that_cannot_be_judged_is_refused(named, sentence):
    with pytest.raises(SpecError) as caught:
        sizes_for(ACCURACY, TOPIC, **named)

    assert str(caught.value) == sentence


# -- clusters and comparisons -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "count"),
    [([None, None, None], None), (["a", "b", "c"], None), (["a", "a", "b"], 2), (["a", "a", "a"], 1)],
    ids=["none", "each-its-own", "two", "one"],
)
def test_clusters_are_counted_where_samples_share_them(groups, count):
    samples = [Sample(id=str(k), input=k, group=group) for k, group in enumerate(groups)]

    assert group_count(identify("sums", samples)) == count


def test_each_comparison_is_made_against_each_baseline():
    requests = [
        Contrast(metric="accuracy", baseline=""),
        Contrast(metric="f1", baseline="", alternative="non-inferior", margin=0.05),
    ]

    assert contrasts_with_baselines(iter(requests), arms_of("v3", "v2", "v1")) == (
        Contrast(metric="accuracy", baseline="v2"),
        Contrast(metric="f1", baseline="v2", alternative="non-inferior", margin=0.05),
        Contrast(metric="accuracy", baseline="v1"),
        Contrast(metric="f1", baseline="v1", alternative="non-inferior", margin=0.05),
    )


def test_without_a_baseline_nothing_is_compared():
    assert contrasts_with_baselines([Contrast(metric="accuracy", baseline="")], arms_of("v3")) == ()


SECONDS = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")


@pytest.mark.parametrize("text", ["10 %", "10%", " 10.0 % "])
def test_a_share_is_a_margin_on_a_ratio(text):
    contrast = parse_contrast("m", margin=text)

    assert contrast == Contrast(
        metric="m", baseline="", alternative="non-inferior", margin=pytest.approx(0.1), is_relative=True
    )
    assert contrast.limit == pytest.approx(math.log(1.1))
    assert contrast.subject("v2") == "m: v2 vs  non-inferior by 10 %"


def test_a_number_is_a_margin_in_units():
    contrast = parse_contrast("m", margin=0.05)

    assert (contrast.limit, contrast.limit_text, contrast.is_relative) == (0.05, "0.05", False)


@pytest.mark.parametrize("text", ["10", "ten %", "-5 %", "", "1e1 %"])
def test_other_texts_are_refused_with_both_forms(text):
    with pytest.raises(SpecError, match=r'write a number, such as 0.05, or a share, such as "10 %"'):
        parse_contrast("m", margin=text)


def test_a_share_of_nothing_is_refused():
    with pytest.raises(SpecError, match="positive"):
        parse_contrast("m", margin="0 %")


@pytest.mark.parametrize("measure", ["rate(m >= 1)", "auroc(m)"])
def test_only_a_metric_alone_takes_a_share(measure):
    with pytest.raises(SpecError, match=r"only a metric alone is compared by a ratio: write ab_compare\('m'\)"):
        parse_contrast(measure, margin="10 %")


@pytest.mark.parametrize(("text", "margin"), [("0.05", 0.05), ("10 %", "10 %"), ("3", 3.0)])
def test_the_command_line_has_both(text, margin):
    assert parse_amount(text) == margin


def test_the_command_line_refuses_anything_else():
    with pytest.raises(ValueError, match="ten"):
        parse_amount("ten")


@pytest.mark.parametrize("kind", ["binary", "bounded", "unbounded", "count"])
def test_a_share_of_what_is_no_amount_is_a_problem(kind):
    share = parse_contrast("m", margin="10 %")

    assert "is not an amount" in contrast_problem(share, MetricFacts(name="m", kind=kind))


def test_a_share_of_an_amount_or_of_what_is_not_known_yet_is_none():
    share = parse_contrast("m", margin="10 %")

    assert contrast_problem(share, SECONDS) == contrast_problem(share, MetricFacts(name="m")) == ""
    assert contrast_problem(parse_contrast("m", margin="250 %"), SECONDS) == ""


# -- relevant differences -------------------------------------------------------------------------------------------


def test_a_relevant_difference_is_written_as_a_margin_is():
    number, share = parse_contrast("m", relevant=0.02), parse_contrast("m", relevant="10 %")

    assert number == Contrast(metric="m", baseline="", relevant=0.02)
    assert (number.limit, number.limit_text, number.subject("v2")) == (0.02, "0.02", "m: v2 vs  (relevant 0.02)")
    assert share.limit == pytest.approx(math.log(1.1))
    assert share.subject("v2") == "m: v2 vs  (relevant 10 %)"


@pytest.mark.parametrize("relevant", [0, -1, math.nan, math.inf, True, "0 %", "ten", [1]])
def test_an_impossible_relevant_difference_is_refused(relevant):
    with pytest.raises(SpecError, match=r"^ab_compare\('m'\) has relevant=.*: write a (positive )?number"):
        parse_contrast("m", relevant=relevant)


@pytest.mark.parametrize(
    ("claim", "beside"),
    [
        ({"margin": 0.05}, "margin=0.05"),
        ({"alternative": "superior"}, "alternative='superior'"),
        ({"alternative": "equivalent", "margin": 0.05}, "margin=0.05"),
    ],
)
def test_a_relevant_difference_is_for_a_regression_gate_alone(claim, beside):
    with pytest.raises(
        SpecError, match=f"has relevant=0.02 beside {beside}: relevant= is for a comparison that guards"
    ):
        parse_contrast("m", relevant=0.02, **claim)


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (
            MetricFacts(name="m", kind="binary", low=0, high=1),
            "has relevant=5, and no two values are further apart than 1",
        ),
        (MetricFacts(name="m", kind="bounded", low=0, high=10), ""),
        (MetricFacts(name="m"), ""),
    ],
)
def test_a_relevant_difference_that_no_two_values_have_is_a_problem(metric, problem):
    result = contrast_problem(parse_contrast("m", relevant=5), metric)

    assert problem in result
    assert bool(problem) == bool(result)


def test_a_relevant_share_of_what_is_no_amount_is_a_problem():
    share = parse_contrast("m", relevant="10 %")

    assert "has relevant='10 %', and 'm' is not an amount" in contrast_problem(
        share, MetricFacts(name="m", kind="count")
    )
    assert contrast_problem(share, SECONDS) == ""


@pytest.mark.parametrize(
    ("contrast", "relevant"),
    [
        (parse_contrast("m"), 0.02),
        (parse_contrast("m", relevant=0.1), 0.1),
        (parse_contrast("m", margin=0.05), None),
        (parse_contrast("m", alternative="superior"), None),
        (parse_contrast("rate(m >= 1)"), None),
        (parse_contrast("other"), None),
    ],
    ids=["takes it", "has its own", "margin", "superior", "rate", "other"],
)
def test_a_regression_gate_takes_the_relevant_difference_of_its_metric(contrast, relevant):
    (declared,) = with_declarations([contrast], [MetricFacts(name="m", relevant=0.02), MetricFacts(name="other")])

    assert declared.relevant == relevant


AMOUNT = MetricFacts(name="seconds", kind="positive", low=0.0)


def test_the_mean_of_an_amount_is_written_where_it_is_meant():
    by_name, by_mean = parse_contrast("seconds"), parse_contrast("mean(seconds)")
    completed = with_declarations([by_name, by_mean], [AMOUNT])

    assert [contrast.expression for contrast in completed] == ["seconds", "mean(seconds)"]
    assert parse_contrast("mean(seconds by topic)").expression == "mean(seconds by topic)"
    assert with_declarations([parse_contrast("mean(seconds[she])")], [AMOUNT])[0].by_mean


def test_the_mean_of_any_other_metric_is_the_metric_alone():
    contrasts = [parse_contrast("accuracy"), parse_contrast("mean(accuracy)")]
    (only,) = with_declarations(contrasts, [MetricFacts(name="accuracy", kind="binary")])

    assert (only.expression, only.by_mean) == ("accuracy", False)


def test_a_comparison_that_was_stored_without_the_declaration_is_of_the_metric_alone():
    plain = to_plain(parse_contrast("seconds"))
    del plain["by_mean"]

    assert from_plain(Contrast, plain) == parse_contrast("seconds")


SAMPLES = [Sample(id=f"{k}", input="?", metadata={"topic": "abc"[k % 3], "age": k}) for k in range(30)]
ARMS = arms_of("v2", "v1")


@pytest.mark.parametrize(
    "text", ["gap(ok by sex) <= 0.1", "ratio(ok by a & b) >= 0.8", "worst(ok by age(2, 5)) >= 0.6"]
)
def test_extremes_are_decided_by_proof(text):
    target = parse_target(text)

    assert target.decide == "bound"
    assert f"{target.expression} {target.relation} {target.value:g}" == text
    assert from_plain(Target, to_plain(target)) == target
    assert parse_target("ok >= 0.5").decide == "point"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("gap(ok by sex) <= 0.1", {"decide": "point"}, "the estimate of an extreme is biased"),
        (
            "gap(ok) <= 0.1",
            {},
            r"does not name the slices: add a field of the samples, as in 'gap\(accuracy by topic\)",
        ),
        ("gap(ok by sex) == 0", {}, "requires an equality"),
        ("ok by sex >= 0.5", {}, r"write worst\(ok by sex\)"),
        ("p95(latency by sex) <= 2", {}, "outside of a statistic of slices"),
        ("ratio(a, b by sex) >= 0.8", {}, "gives ratio.* 2 metrics, and it takes 1 metric"),
        ("gap(ok by sex) <= 10", {}, ""),
    ],
)
def test_other_forms_are_refused(text, options, message):
    if not message:
        assert parse_target(text, **options).value == 10
        return
    with pytest.raises(SpecError, match=message):
        parse_target(text, **options)


def test_each_slice_is_a_comparison_of_its_own():
    declared = [parse_contrast("ok by topic"), parse_contrast("gap(ok by topic)"), parse_contrast("ok")]

    contrasts = contrasts_with_baselines(declared, ARMS, SAMPLES)

    assert [contrast.subject("v2") for contrast in contrasts] == [
        "ok by topic = a: v2 vs v1", "ok by topic = b: v2 vs v1", "ok by topic = c: v2 vs v1",
        "gap(ok by topic): v2 vs v1", "ok: v2 vs v1",
    ]  # fmt: skip
    assert all(contrast.shares_alpha for contrast in contrasts)
    assert [contrast.slice_size for contrast in contrasts] == [10, 10, 10, 0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gap(ok by topics) <= 0.1", r"gap\(ok by topics\): no sample has a field 'topics'; did you mean 'topic'\?"),
        ("gap(ok by age) <= 0.1", r"gap\(ok by age\): nearly every sample has its own 'age'; cut it: by age\(10, 19\)"),
        ("gap(ok by topic within agee) <= 0.1", "no sample has a field 'agee'"),
    ],
)
def test_fields_are_checked_before_anything_is_sent(text, message):
    with pytest.raises(SpecError, match=message):
        check_expected([parse_target(text)], [], SAMPLES)


def test_versions_of_twins_are_slices():
    samples = [
        Sample(id="a", input="he", metadata={"twin": "male"}, variants={"female": Twin(input="she")}),
        Sample(id="b", input="he", metadata={"twin": "male"}, variants={"female": Twin(input="she")}),
        Sample(id="c", input="it", variants={"female": NoTwin("no word to swap")}),
    ]

    check_expected([parse_target("gap(ok by twin) <= 0.1")], [], samples)
    contrasts = contrasts_with_baselines([parse_contrast("ok by twin")], ARMS, samples)

    assert [contrast.slice for contrast in contrasts] == ["female", "male"]


def test_ratios_have_no_margin_and_within_is_for_extremes():
    with pytest.raises(SpecError, match="two ratios are compared by their ratio"):
        parse_contrast("ratio(ok by sex)", margin=0.1)
    with pytest.raises(SpecError, match="within standardises gap, ratio and worst only"):
        contrasts_with_baselines([parse_contrast("ok by topic within age")], ARMS, SAMPLES)
