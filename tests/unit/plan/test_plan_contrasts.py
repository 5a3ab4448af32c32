"""Comparisons as they are written: margins in units and as shares."""

from __future__ import annotations

import math

import pytest

from pytest_crucible.measures.table import contrast_problem
from pytest_crucible.plan.contrasts import parse_contrast, with_declarations
from pytest_crucible.records import Contrast, MetricFacts
from pytest_crucible.records.amounts import parse_amount
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import from_plain, to_plain

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
