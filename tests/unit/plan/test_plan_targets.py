"""The grammar of targets and comparisons."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import names

from pytest_crucible import SpecError
from pytest_crucible.measures.table import STATISTICS
from pytest_crucible.metrics.definition import declared_facts
from pytest_crucible.plan.grammar import (
    RELATIONS,
    Bracket,
    By,
    Condition,
    Field,
    Requirement,
    Term,
    Value,
    parse_requirement,
    parse_value,
    shortest,
)
from pytest_crucible.plan.targets import parse_measure, parse_target, with_last_metrics
from pytest_crucible.records import Target

relations = st.sampled_from(RELATIONS)
numbers = st.floats(allow_nan=False, allow_infinity=False)
blanks = st.sampled_from(["", " ", "  ", "\t"])
CONDITION = "cannot be read: a condition belongs in rate(...), as in 'rate(score >= 0.75) >= 0.45'"


@pytest.mark.parametrize(
    ("text", "statistic", "metric", "relation", "value", "more"),
    [
        ("accuracy >= 0.80", "mean", "accuracy", ">=", 0.8, {}),
        ("mean(loss) < 2", "mean", "loss", "<", 2.0, {}),
        ("rate(entailment >= 0.75) >= 0.45", "rate", "entailment", ">=", 0.45, {"inner_relation": ">=", "inner_value": 0.75}),
        ("count(high_flags) == 0", "count", "high_flags", "==", 0.0, {}),
        ("count(errors > 2) <= 3", "count", "errors", "<=", 3.0, {"inner_relation": ">", "inner_value": 2.0}),
        ("p95(latency_s) <= 2", "quantile", "latency_s", "<=", 2.0, {"quantile": 0.95}),
        ("p2.5(score) > -1e-3", "quantile", "score", ">", -0.001, {"quantile": 0.025}),
        ("pass^3(ok) >= 0.8", "pass^", "ok", ">=", 0.8, {"draws": 3}),
        ("pass@10(score > 0.5) >= 0.8", "pass@", "score", ">=", 0.8, {"draws": 10, "inner_relation": ">", "inner_value": 0.5}),
        ("rate(mean_by_sample(ok) >= 0.8) >= 0.95", "rate", "ok", ">=", 0.95,
         {"by_sample": True, "inner_relation": ">=", "inner_value": 0.8}),
        ("mean_by_sample >= 1", "mean", "mean_by_sample", ">=", 1.0, {}),
        ("f1.macro-avg>=.5", "mean", "f1.macro-avg", ">=", 0.5, {}),
        ("auroc(score) >= 0.7", "auroc", "score", ">=", 0.7, {}),
        ("ece(confidence, accuracy) <= 0.05", "ece", "confidence", "<=", 0.05, {"further": ("accuracy",)}),
        ("accuracy[v1] > 0", "mean", "accuracy[v1]", ">", 0.0, {}),
        ("by >= 1", "mean", "by", ">=", 1.0, {}),
        ("mean >= 1", "mean", "mean", ">=", 1.0, {}),
        ("p95 <= +2.", "mean", "p95", "<=", 2.0, {}),
    ],
)  # fmt: skip
def test_a_target_is_parsed(text, statistic, metric, relation, value, more):
    parsed = Target(text=text, statistic=statistic, metric=metric, relation=relation, value=value, **more)

    assert parse_target(text) == parsed


def refusal(text, parse=parse_target) -> str:
    with pytest.raises(SpecError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("accuracy", "mean"),
        ("rate(entailment >= 0.75)", "rate >= 0.75"),
        ("auroc(score)", "auroc"),
        ("ece(confidence, accuracy)", "ece vs accuracy"),
    ],
)
def test_a_comparison_is_about_a_measure(text, label):
    measure = parse_measure(text, "this")

    assert (measure.expression, measure.label) == (text, label)


def test_a_mean_is_named_by_its_metric_alone():
    alone, by_mean = parse_measure("accuracy", "this"), parse_measure("mean(accuracy)", "this")

    assert (alone.statistic, by_mean.statistic) == ("mean", "mean")
    # The difference counts for amounts alone: `with_declarations` removes it elsewhere.
    assert replace(by_mean, by_mean=False) == alone


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "rate(grade == 3)",
            "does not show which arm is better: write the condition with >= or <=, as in 'rate(grade >= 3)'",
        ),
        (
            "accuracy >= 0.8",
            "cannot be read at '>=' (character 10): a comparison has no limit: leave out the relation and the number",
        ),
        ("accuracy f1", "cannot be read at 'f1' (character 10): expected nothing more, for example 'accuracy >= 0.80'"),
    ],
)
def test_an_invalid_measure_is_refused(text, sentence):
    what = f"ab_compare({text!r})"

    assert refusal(text, lambda text: parse_measure(text, what)) == f"{what} {sentence}"


def test_a_target_is_shown_with_single_blanks():
    assert parse_target("  accuracy   >=\t0.8 ").text == "accuracy >= 0.8"


@given(names, relations, numbers, blanks)
def test_a_written_target_is_parsed(metric, relation, value, blank):
    target = parse_target(f"{blank}{metric} {relation}{blank}{value!r}{blank}")

    assert (target.statistic, target.metric, target.relation, target.value) == ("mean", metric, relation, value)


@given(names, relations, numbers, relations, numbers, st.sampled_from(["rate", "count"]), blanks)
def test_a_written_condition_is_parsed(metric, inner, bound, relation, value, statistic, blank):
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
def test_any_text_is_a_target_or_refused(text):
    try:
        parsed_text = parse_target(text).text
    except SpecError as error:
        parsed_text = str(error)

    assert " ".join(text.split()) in parsed_text or repr(text) in parsed_text


RELATION = "expected one of >=, <=, >, <, =="


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("", "its end", "expected a metric"),
        ("accuracy", "its end", RELATION),
        ("accuracy >=", "its end", "expected a number"),
        ("accuracy >= 80%", "'%' (character 15)", "expected nothing more"),
        ("accuracy => 0.8", "'=' (character 10)", RELATION),
        ("accuracy = 0.8", "'=' (character 10)", RELATION),
        ("accuracy != 0.8", "'!' (character 10)", RELATION),
        ("accuracy >= high", "'high' (character 13)", "expected a number"),
        ("accuracy >= nan", "'nan' (character 13)", "expected a number"),
        ("accuracy >= inf", "'inf' (character 13)", "expected a number"),
        ("0.8 <= accuracy", "'0.8' (character 1)", "expected a metric"),
        ("accuracy >= 0.8 and f1 >= 0.5", "'and' (character 17)", "expected nothing more"),
        ("mean(accuracy >= 0.5", "its end", "expected ')'"),
        ("accuracy) >= 0.5", "')' (character 9)", RELATION),
        ("rate(accuracy >= 0.5 >= 0.5", "'>=' (character 22)", "expected ')'"),
        ("p-5(latency) <= 2 2", "'2' (character 19)", "expected nothing more"),
        ("mean() >= 1", "')' (character 6)", "expected a metric"),
        ("1st >= 1", "'1' (character 1)", "expected a metric"),
        ("accuracy[ ] >= 1", "'[ ]' (character 9)", "expected a name in the brackets"),
        ("accuracy[v1 >= 1", "'[' (character 9)", RELATION),
        ("ece(confidence,) <= 1", "')' (character 16)", "expected a metric"),
    ],
)
def test_a_target_outside_the_grammar_is_refused_at_its_place(text, place, expected):
    assert refusal(text) == f"target {text!r} cannot be read at {place}: {expected}, for example 'accuracy >= 0.80'"


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("accuracy by >= 1", "'>=' (character 13)", "expected a field of the samples"),
        ("accuracy by topic within >= 1", "'>=' (character 26)", "expected a field of the samples"),
        ("accuracy by length(1, >= 1", "'>=' (character 23)", "expected a number"),
        ("gap(accuracy by native country) <= 0.1", "'country' (character 24)", "expected the end of a field"),
        ("gap(accuracy by sex within 性) <= 0.1", "'性' (character 28)", "expected a field of the samples"),
    ],
)
def test_a_field_outside_the_grammar_is_refused_with_fields_for_example(text, place, expected):
    example = """for example sex & race, age(25, 45), or "native country" in double quotes"""
    assert refusal(text) == f"target {text!r} cannot be read at {place}: {expected}, {example}"


SPELLINGS = "the statistics are " + ", ".join(row.spelling for row in STATISTICS.values())


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("median(accuracy) >= 0.5", "median", "did you mean 'mean'? "),
        ("gaps(accuracy by topic) <= 0.5", "gaps", "did you mean 'gap'? "),
        ("auc(score) >= 0.5", "auc", "did you mean 'auroc'? "),
        ("p(latency) <= 2", "p", ""),
        ("p-5(latency) <= 2", "p-5", "did you mean 'p95'? "),
        ("quantile(latency) <= 2", "quantile", ""),
        ("p1.2.3(latency) <= 2", "p1.2.3", ""),
        # A digit to `isdigit`, and to no number.
        ("p9²(latency) <= 2", "p9²", "did you mean 'p95'? "),
    ],
)
def test_a_statistic_that_does_not_exist_is_refused_with_the_nearest_one(text, name, hint):
    assert refusal(text) == f"target {text!r} cannot be read: {name!r} is not a statistic: {hint}{SPELLINGS}"


def test_a_target_that_is_not_a_text_is_refused():
    assert refusal(0.8) == "target 0.8 is not a text: write it in quotes, for example 'accuracy >= 0.80'"


@pytest.mark.parametrize(
    "text",
    ["rate(accuracy) >= 0.5", "mean(accuracy >= 0.5) >= 0.5", "p95(latency > 1) <= 2", "auroc(score > 1) >= 0.5"],
)
def test_a_condition_in_the_wrong_place_is_refused(text):
    assert refusal(text) == f"target {text!r} {CONDITION}"


def test_a_second_relation_is_refused_as_a_condition():
    assert refusal("accuracy >= 0.5 >= 0.5") == (
        "target 'accuracy >= 0.5 >= 0.5' cannot be read at '>=' (character 17): "
        "a condition belongs in rate(...), as in 'rate(score >= 0.75) >= 0.45'"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "ece(confidence, accuracy, cost) <= 0.1",
            "gives ece(...) 3 metrics, and it takes 2 metrics: write 'ece(confidence, accuracy) <= 0.05'",
        ),
        ("mean(a, b) >= 1", "gives mean(...) 2 metrics, and it takes 1 metric: write 'mean(accuracy) >= 0.80'"),
    ],
)
def test_a_statistic_of_too_many_metrics_is_refused(text, sentence):
    assert refusal(text) == f"target {text!r} {sentence}"


FACTS = [declared_facts(name, kind=kind, direction=direction) for name, kind, direction in (
    ("right", "binary", "higher"), ("blocked", "binary", "lower"), ("words", "count", "higher"), ("confidence", None, "higher"),
)]  # fmt: skip


def test_an_accuracy_that_is_left_out_is_the_only_yes_or_no_metric():
    targets = [parse_target("ece(confidence) <= 0.1"), parse_target("right >= 0.5")]

    first, second = with_last_metrics(targets, FACTS)

    assert (first.metrics, first.text) == (("confidence", "right"), "ece(confidence) <= 0.1")
    assert second == targets[1]


@pytest.mark.parametrize(("facts", "count", "example"), [
    ([*FACTS, declared_facts("exact", kind="binary")], "2 yes-or-no metrics", "right"),
    (FACTS[1:], "0 yes-or-no metrics", "passed"),
])  # fmt: skip
def test_an_accuracy_that_is_not_clear_has_to_be_named(facts, count, example):
    expected = (
        f"ece(confidence) does not name its accuracy, and the experiment has {count}: write for example "
        f"ece(confidence, {example})"
    )
    assert (
        refusal([parse_target("ece(confidence) <= 0.1")], lambda targets: with_last_metrics(targets, facts)) == expected
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "pass^k(ok) >= 1",
            "asks for pass^k: write a whole number of draws from 1 on, as in 'pass^3(accuracy) >= 0.80'",
        ),
        (
            "pass@0(ok) >= 1",
            "asks for pass@0: write a whole number of draws from 1 on, as in 'pass@3(accuracy) >= 0.80'",
        ),
        (
            "mean_by_sample(ok) >= 1",
            "cannot be read: mean_by_sample(...) belongs in rate(...), as in 'rate(mean_by_sample(accuracy) >= 0.8) >= 0.95'",
        ),
        (
            "mean(mean_by_sample(ok)) >= 1",
            "cannot be read: mean_by_sample(...) belongs in rate(...), as in 'rate(mean_by_sample(accuracy) >= 0.8) >= 0.95'",
        ),
        (
            "overall(ok by task) >= 1",
            "does not say what counts alike: write overall(ok by task, macro), where each task does, or "
            "overall(ok by task, micro), where each sample does",
        ),
        ("gap(ok by task, macro) <= 1", "has 'macro' after its field, which only overall(...) takes: leave it out"),
        (
            "overall(ok by task within age, macro) >= 1",
            "has within, which standardises gap, ratio and worst only: leave it out",
        ),
    ],
)
def test_draws_and_means_over_slices_are_refused_in_one_sentence(text, sentence):
    assert refusal(text) == f"target {text!r} {sentence}"


def test_a_number_in_brackets_is_a_part_of_the_variants_name():
    assert parse_target("accuracy[homoglyph  0.10] >= 0.5").metric == "accuracy[homoglyph 0.1]"


@pytest.mark.parametrize("percent", ["0", "00", "0.0", "100", "100.5", "1000"])
def test_a_quantile_outside_0_to_100_is_refused(percent):
    assert refusal(f"p{percent}(latency_s) <= 2") == (
        f"target 'p{percent}(latency_s) <= 2' asks for p{percent}: "
        "write a percentage between 0 and 100, as in 'p95(latency_s) <= 2'"
    )


def test_a_target_is_decided_by_the_estimate_or_by_proof():
    assert [parse_target("accuracy >= 0.8", decide=decide).decide for decide in ("point", "bound")] == [
        "point",
        "bound",
    ]
    with pytest.raises(SpecError) as caught:
        parse_target("accuracy >= 0.8", decide="proof")

    assert str(caught.value) == (
        "target 'accuracy >= 0.8' has decide='proof': write 'point' (the estimate decides) or 'bound' (proof decides)"
    )


metric_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,8}", fullmatch=True)
# A name whose last word is a number would be read as a numbered variant.
inner = st.from_regex(r"[^\[\]\s]([^\[\]\s]| [a-z])*", fullmatch=True)
brackets = st.builds(Bracket, inner, st.none() | numbers)
terms = st.builds(Term, metric_names, st.none() | brackets)
fields = st.builds(Field, metric_names, st.lists(numbers, max_size=3).map(tuple))
groupings = st.builds(By, st.lists(fields, min_size=1, max_size=3).map(tuple), st.none() | fields)
plain_values = st.builds(lambda term, by: Value((term,), by=by), terms, st.none() | groupings)
functions = metric_names | st.builds("{}{}{}".format, metric_names, st.sampled_from("@^"), st.integers(0, 99))
calls = st.builds(
    Value,
    st.lists(terms, min_size=1, max_size=3).map(tuple),
    functions,
    st.none() | st.builds(Condition, relations, numbers),
    st.none() | groupings,
    st.booleans(),
).flatmap(
    lambda call: (
        st.just(call) if call.by is None else st.builds(replace, st.just(call), counts=st.just("") | metric_names)
    )
)
values = plain_values | calls
requirements = st.builds(Requirement, values, relations, numbers)


@given(requirements)
def test_a_printed_requirement_is_parsed_to_the_same_tree(tree):
    assert parse_requirement(str(tree), "this") == tree


@given(values)
def test_a_printed_value_is_parsed_to_the_same_tree(tree):
    assert parse_value(str(tree), "this") == tree


@given(requirements, st.sampled_from([" ", "  ", "\t"]))
def test_a_text_has_one_normal_form(tree, blank):
    """More blanks, the same tree; and the printed form of what was parsed is parsed to itself."""
    spread = f"{blank}{tree}{blank}".replace(" >= ", f"{blank}>={blank}")
    normal = str(parse_requirement(spread, "this"))

    assert normal == str(tree)
    assert str(parse_requirement(normal, "this")) == normal


@given(st.text(alphabet="ab .[]()&,<>=1-by@^", max_size=20))
def test_any_text_is_parsed_or_refused_at_a_place_within_it(text):
    try:
        assert parse_requirement(str(parse_requirement(text, "this")), "this")
    except SpecError as error:
        place = str(error).partition("(character ")[2].partition(")")[0]
        assert not place or text[int(place) - 1]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("accuracy", Value((Term("accuracy"),))),
        ("accuracy[v1]", Value((Term("accuracy", Bracket("v1")),))),
        ("accuracy[attack 3]", Value((Term("accuracy", Bracket("attack", 3.0)),))),
        ("accuracy.overall", Value((Term("accuracy.overall"),))),
        ("by by by", Value((Term("by"),), by=By((Field("by"),)))),
        ("a by b & c within d", Value((Term("a"),), by=By((Field("b"), Field("c")), Field("d")))),
        ("a by within within within", Value((Term("a"),), by=By((Field("within"),), Field("within")))),
        (
            "gap(a > 1, b by metadata.length(100, 2e2))",
            Value(
                (Term("a"), Term("b")), "gap", Condition(">", 1.0), By((Field("metadata.length", (100.0, 200.0)),)),
            ),
        ),
    ],
)  # fmt: skip
def test_each_rule_of_the_grammar(text, tree):
    assert parse_value(text, "this") == tree


@pytest.mark.parametrize("number", [0.1, 2.0, -0.0, 1e-05, 1e300, 123456789.0, math.pi])
def test_the_shortest_text_of_a_number_reads_as_the_same_number(number):
    assert float(shortest(number)) == number
