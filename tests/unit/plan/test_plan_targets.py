"""The grammar of quality targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import names

from pytest_crucible import SpecError
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Target

relations = st.sampled_from([">=", "<=", ">", "<", "=="])
numbers = st.floats(allow_nan=False, allow_infinity=False)
blanks = st.sampled_from(["", " ", "  ", "\t"])
UNREADABLE = "cannot be read: write a metric, one of >=, <=, >, <, == and a number, for example 'accuracy >= 0.80'"
CONDITION = "cannot be read: a condition belongs in rate(...), as in 'rate(score >= 0.75) >= 0.45'"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("accuracy >= 0.80", {"statistic": "mean", "metric": "accuracy", "relation": ">=", "value": 0.8}),
        ("mean(loss) < 2", {"statistic": "mean", "metric": "loss", "relation": "<", "value": 2.0}),
        (
            "rate(entailment >= 0.75) >= 0.45",
            {
                "statistic": "rate",
                "metric": "entailment",
                "relation": ">=",
                "value": 0.45,
                "inner_relation": ">=",
                "inner_value": 0.75,
            },
        ),
        ("count(high_flags) == 0", {"statistic": "count", "metric": "high_flags", "relation": "==", "value": 0.0}),
        (
            "count(errors > 2) <= 3",
            {
                "statistic": "count",
                "metric": "errors",
                "relation": "<=",
                "value": 3.0,
                "inner_relation": ">",
                "inner_value": 2.0,
            },
        ),
        (
            "p95(latency_s) <= 2",
            {"statistic": "quantile", "metric": "latency_s", "relation": "<=", "value": 2.0, "quantile": 0.95},
        ),
        (
            "p2.5(score) > -1e-3",
            {"statistic": "quantile", "metric": "score", "relation": ">", "value": -0.001, "quantile": 0.025},
        ),
        ("f1.macro-avg>=.5", {"statistic": "mean", "metric": "f1.macro-avg", "relation": ">=", "value": 0.5}),
        ("mean >= 1", {"statistic": "mean", "metric": "mean", "relation": ">=", "value": 1.0}),
        ("p95 <= +2.", {"statistic": "mean", "metric": "p95", "relation": "<=", "value": 2.0}),
    ],
)
def test_a_target_is_read(text, parts):
    assert parse_target(text) == Target(text=text, **parts)


def test_a_target_is_shown_with_single_blanks():
    assert parse_target("  accuracy   >=\t0.8 ").text == "accuracy >= 0.8"


@given(names, relations, numbers, blanks)
def test_what_is_written_is_what_is_meant(metric, relation, value, blank):
    target = parse_target(f"{blank}{metric} {relation}{blank}{value!r}{blank}")

    assert (target.statistic, target.metric, target.relation, target.value) == ("mean", metric, relation, value)


@given(names, relations, numbers, relations, numbers, st.sampled_from(["rate", "count"]), blanks)
def test_what_is_written_within_brackets_is_what_is_meant(metric, inner, bound, relation, value, statistic, blank):
    target = parse_target(
        f"{statistic}({blank}{metric} {inner}{blank}{bound!r}{blank}){blank}{relation}{blank}{value!r}"
    )

    assert (target.statistic, target.metric, target.relation, target.value) == (statistic, metric, relation, value)
    assert (target.inner_relation, target.inner_value) == (inner, bound)


@given(names, relations, numbers)
def test_a_target_that_is_shown_can_be_read_again(metric, relation, value):
    target = parse_target(f"  p95( {metric} )  {relation}  {value!r}")

    assert parse_target(target.text) == target


@given(st.text(alphabet="acp95(). >=<-+e0%", max_size=25))
def test_any_text_is_read_or_refused(text):
    try:
        said = parse_target(text).text
    except SpecError as error:
        said = str(error)

    assert " ".join(text.split()) in said or repr(text) in said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "accuracy",
        "accuracy >= 80%",
        "accuracy => 0.8",
        "accuracy = 0.8",
        "accuracy != 0.8",
        "accuracy >= high",
        "accuracy >= nan",
        "accuracy >= inf",
        "0.8 <= accuracy",
        "accuracy >= 0.8 and f1 >= 0.5",
        "median(accuracy) >= 0.5",
        "mean(accuracy >= 0.5",
        "accuracy) >= 0.5",
        "rate(accuracy >= 0.5 >= 0.5",
        "p(latency) <= 2",
        "p-5(latency) <= 2",
        "mean() >= 1",
        "1st >= 1",
    ],
)
def test_a_target_outside_the_grammar_is_refused_with_an_example(text):
    with pytest.raises(SpecError) as caught:
        parse_target(text)

    assert str(caught.value) == f"target {text!r} {UNREADABLE}"


def test_a_target_that_is_no_text_is_refused():
    with pytest.raises(SpecError) as caught:
        parse_target(0.8)

    assert str(caught.value) == f"target 0.8 {UNREADABLE}"


@pytest.mark.parametrize(
    "text",
    ["rate(accuracy) >= 0.5", "mean(accuracy >= 0.5) >= 0.5", "p95(latency > 1) <= 2", "accuracy >= 0.5 >= 0.5"],
)
def test_a_condition_in_the_wrong_place_is_refused(text):
    with pytest.raises(SpecError) as caught:
        parse_target(text)

    assert str(caught.value) == f"target {text!r} {CONDITION}"


@pytest.mark.parametrize("percent", ["0", "00", "0.0", "100", "100.5", "1000"])
def test_a_quantile_that_no_data_have_is_refused(percent):
    with pytest.raises(SpecError) as caught:
        parse_target(f"p{percent}(latency_s) <= 2")

    assert str(caught.value) == (
        f"target 'p{percent}(latency_s) <= 2' asks for p{percent}: "
        "write a percentage between 0 and 100, as in 'p95(latency_s) <= 2'"
    )


@pytest.mark.parametrize("decide", ["point", "bound"])
def test_a_target_says_what_decides_it(decide):
    assert parse_target("accuracy >= 0.8", decide=decide).decide == decide


def test_anything_else_cannot_decide():
    with pytest.raises(SpecError) as caught:
        parse_target("accuracy >= 0.8", decide="proof")

    assert str(caught.value) == (
        "target 'accuracy >= 0.8' has decide='proof': write 'point' (the estimate decides) or 'bound' (proof decides)"
    )
