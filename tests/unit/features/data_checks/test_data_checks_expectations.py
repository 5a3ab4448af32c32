"""Data checks: what each expectation finds, what it refuses, and that the order of rows changes nothing."""

from __future__ import annotations

import datetime as dt
import random
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_tables import read_table
from scipy import stats

from pytest_crucible.datasets import checks
from pytest_crucible.datasets.check import CheckContext
from pytest_crucible.datasets.checks import check_samples
from pytest_crucible.datasets.columns import Table
from pytest_crucible.datasets.packed import PackedSamples
from pytest_crucible.features.data_checks.answers import run_standard
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


def samples(**columns) -> list[Sample]:
    """Samples with these columns; `input` is a text of its own for each."""
    size = max(map(len, columns.values()))
    rows = [{name: values[k] for name, values in columns.items()} for k in range(size)]
    return [
        Sample(
            id=f"s{k}",
            input=row.pop("input", f"question {k}"),
            expected=row.pop("expected", None),
            group=row.pop("group", None),
            metadata=row,
        )
        for k, row in enumerate(rows)
    ]


def run(check, dataset, **context):
    [result] = check_samples(dataset, [check], context=CheckContext(**context))
    return result


def call(name: str, *arguments, **options):
    return getattr(checks, name)(*arguments, **options)


# Name, arguments, options, columns that meet it, columns that do not. One row for each option whose value decides.
CASES = [
    *read_table("check_cases"),
    ("expect_no_missing_values", ("x",), {}, {"x": [0]}, {"x": [0.5, float("nan")]}),
    (
        "expect_column_values_to_be_valid_timestamps",
        ("x",),
        {},
        {"x": ["2026-03-31T12:00:00Z", "2026-03-31 12:00", "3/31/2026", 1_800_000_000, dt.date(2026, 1, 1), None]},
        {"x": ["2026-02-30"]},
    ),
    (
        "expect_column_timestamp_intervals_to_be_regular",
        ("x",),
        {"expected_interval": dt.timedelta(days=1), "tolerance": 0.5},
        {"x": ["2026-01-01", "2026-01-02T06:00"]},
        {"x": ["2026-01-01", "2026-01-03"]},
    ),
    ("expect_column_values_to_match_format", ("x", re.compile("a+")), {}, {"x": ["aa"]}, {"x": ["ab"]}),
    ("expect_prompts_to_fit", (2,), {"tokenizer": str.split}, {"input": ["one two"]}, {"input": ["one two three"]}),
]
ORDERED = {
    "expect_column_values_to_be_increasing",
    "expect_column_values_to_be_decreasing",
    "expect_column_timestamps_to_be_chronological",
    "expect_column_timestamp_intervals_to_be_regular",
}


def test_each_expectation_is_met_and_missed_by_its_cases():
    wrong = []
    for name, arguments, options, good, bad in CASES:
        check = call(name, *arguments, **options)
        states = [run(check, samples(**columns)).state for columns in (good, bad)]
        if states != ["passed", "failed"]:
            wrong.append((check.call, states, run(check, samples(**good)).message))

    assert not wrong


def test_each_expectation_has_a_case():
    elsewhere = {
        *("expect_all", "expect_any", "expect_at_least", "expect_no_data_drift", "expect_not_contaminated"),
        *("expect_pandera", "expect_column_values_to_be_normal"),
    }
    names = {name for name in checks.__all__ if name.startswith("expect_")}

    assert {name for name, *_ in CASES} | elsewhere == names
    assert len(names) == 34 + 14


def test_the_order_of_the_samples_changes_no_result():
    wrong = []
    for name, arguments, options, *columns in CASES:
        check = call(name, *arguments, **options)
        for of_case in columns:
            rows = samples(**of_case)
            shuffled = random.Random(3).sample(rows, len(rows))
            if name not in ORDERED and run(check, rows) != run(check, shuffled):
                wrong.append((check.call, run(check, rows), run(check, shuffled)))

    assert not wrong


def test_packed_samples_give_the_same_results():
    for name, arguments, options, _, bad in CASES:
        rows = samples(**bad)
        check = call(name, *arguments, **options)

        assert run(check, rows) == run(check, PackedSamples(rows)), name


def test_a_missing_column_fails_every_expectation():
    for name, arguments, options, *_ in CASES:
        if name in ("expect_column_count_to_equal", "expect_table_row_count_to_be_between"):
            continue
        if not arguments or arguments[0] != "x":
            continue
        result = run(call(name, *arguments, **options), samples(lable=["a"]))

        assert result.state == "failed", name
        assert "no sample has a field 'x'" in result.message, name


def test_a_misspelt_column_has_a_suggestion():
    rows = samples(label=["a"], expected=[{"verdict": 1}])

    assert run(checks.expect_no_missing_values("lable"), rows).sentence == (
        "expect_no_missing_values(\"lable\"): no sample has a field 'lable'; did you mean 'label'?"
    )
    assert "did you mean 'expected.verdict'?" in run(checks.expect_no_missing_values("expected.verdct"), rows).message
    assert run(checks.expect_no_missing_values("expected.verdict"), rows).state == "passed"


def test_missing_values_are_skipped_and_counted():
    result = run(checks.expect_column_values_to_be_between("x", 0, 9), samples(x=[1, None, 99]))

    assert (result.checked, result.missing, result.failing, result.samples) == (2, 1, 1, ("s2",))
    assert result.message.endswith("s2; 1 missing value was skipped")


def test_mostly_is_a_share_of_the_values_that_are_there():
    rows = samples(x=[1] * 19 + [99, None])

    assert run(checks.expect_column_values_to_be_between("x", 0, 9, mostly=0.95), rows).state == "passed"
    assert run(checks.expect_column_values_to_be_between("x", 0, 9, mostly=0.96), rows).state == "failed"


def test_a_warning_is_not_a_failure():
    assert run(checks.expect_no_missing_values("x", severity="warn"), samples(y=[1])).state == "warned"


def test_a_column_without_any_value_is_not_met():
    assert run(checks.expect_column_values_to_be_between("x", 0, 9), samples(x=[None, None])).state == "failed"
    assert "no sample has a value" in run(checks.expect_column_mean_to_be_between("x", 0, 9), samples(x=[None])).message


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: checks.expect_column_mean_to_be_between("age", 0, 99, mostly=0.9),
            'expect_column_mean_to_be_between("age", 0, 99, mostly=0.9): the check is about the whole column; remove mostly',
        ),
        (
            lambda: checks.expect_label_balance("x", min_ration=0.2),
            "expect_label_balance(\"x\", min_ration=0.2): it has no option 'min_ration'; did you mean 'min_ratio'?",
        ),
        (
            lambda: checks.expect_column_values_to_be_between("x"),
            'expect_column_values_to_be_between("x"): give min, max or both',
        ),
        (
            lambda: checks.expect_no_missing_values("x", mostly=1.5),
            'expect_no_missing_values("x", mostly=1.5): mostly must be a share above 0 and at most 1, such as 0.99',
        ),
        (
            lambda: checks.expect_no_missing_values("x", severity="warning"),
            "expect_no_missing_values(\"x\", severity=\"warning\"): severity must be 'error' or 'warn'",
        ),
        (
            lambda: checks.expect_column_to_be_of_type("x", "text"),
            "expect_column_to_be_of_type(\"x\", \"text\"): type is 'text'; write one of integer, float, number, string, "
            "boolean, list, map, timestamp",
        ),
        (lambda: checks.expect_all([]), "expect_all([]): give a list of checks, such as"),
        (lambda: checks.expect_column_values_to_match_regex("x", "("), "is not a regular expression"),
        (lambda: checks.expect_no_duplicates(near=0.1), "expect_no_duplicates(near=0.1): near is 0.1; write a similarity"),
        (lambda: checks.expect_not_contaminated(3), "expect_not_contaminated(3): against must be the path of a training file"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_named(make, sentence):
    with pytest.raises(SpecError) as caught:
        make()

    assert sentence in str(caught.value)


def test_an_unknown_check_has_a_suggestion():
    with pytest.raises(ImportError) as caught:
        from pytest_crucible.datasets.checks import expect_label_balanced  # noqa: F401

    assert str(caught.value) == "expect_label_balanced is not a known check; did you mean expect_label_balance?"
    assert not hasattr(checks, "nothing")


@pytest.mark.parametrize("place", ["pattern", "format"])
def test_a_pattern_that_takes_too_long_is_named(monkeypatch, place):
    monkeypatch.setattr("pytest_crucible.features.data_checks.values.PATTERN_TIMEOUT_S", 0.05)
    check = (
        checks.expect_column_values_to_match_regex("input", "(a|aa)+$")
        if place == "pattern"
        else checks.expect_column_values_to_match_format("input", re.compile("(a|aa)+"))
    )
    [result] = check_samples([Sample(id="s", input="a" * 60 + "b")], [check])

    assert result.state == "failed"
    assert "takes more than 0.05 s on the text 'aaa" in result.message


def test_flags_of_a_compiled_pattern_count():
    samples = [Sample(id="s", input="GRÖSSE")]
    formats = [re.compile(r"grösse", re.IGNORECASE), re.compile(r"\w+", re.ASCII), re.compile(r"\w+")]
    results = check_samples(samples, [checks.expect_column_values_to_match_format("input", each) for each in formats])

    assert [result.state for result in results] == ["passed", "failed", "passed"]


def test_a_pandera_schema_is_checked():
    pandera = pytest.importorskip("pandera.pandas")
    schema = pandera.DataFrameSchema(
        {"age": pandera.Column(int, pandera.Check.ge(18)), "input": pandera.Column(str, unique=True)}
    )
    samples = [Sample(id=f"s{k}", input=f"q{k}", metadata={"age": 16 + k}) for k in range(4)]
    failed, passed = (checks.check_samples(rows, [checks.expect_pandera(schema)])[0] for rows in (samples, samples[2:]))

    assert (passed.state, failed.state) == ("passed", "failed")
    assert failed.samples == ("s0", "s1")
    assert "age: greater_than_or_equal_to(18)" in failed.message
    absent = pandera.DataFrameSchema({"height": pandera.Column(int)})
    [missing] = checks.check_samples(samples, [checks.expect_pandera(absent)])
    assert missing.state == "failed"
    assert "height" in missing.message

    class Model(pandera.DataFrameModel):
        age: int = pandera.Field(le=18)

    [modelled] = checks.check_samples(samples, [checks.expect_pandera(Model)])
    assert modelled.samples == ("s3",)
    with pytest.raises(SpecError, match="schema is a pandera"):
        checks.expect_pandera("age > 18")


def test_pandera_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandera", None)
    monkeypatch.setitem(sys.modules, "pandera.errors", None)

    with pytest.raises(SpecError) as caught:
        checks.expect_pandera(object())

    assert str(caught.value) == "expect_pandera needs pandera; pip install pandera"


def test_a_normal_column_is_tested_as_scipy_does():
    normal, skewed = np.random.default_rng(1).normal(size=400), np.random.default_rng(1).exponential(size=400)
    check = checks.expect_column_values_to_be_normal("x")

    assert run(check, samples(x=normal.tolist())).state == "passed"
    result = run(check, samples(x=skewed.tolist()))
    assert result.state == "failed"
    assert f"p = {stats.shapiro(skewed).pvalue:.3g}" in result.message
    p = stats.shapiro(normal).pvalue
    assert (
        run(checks.expect_column_values_to_be_normal("x", alpha=p + 0.01), samples(x=normal.tolist())).state == "failed"
    )


def test_combined_checks_run_all_of_their_children():
    good, bad = checks.expect_no_missing_values("x"), checks.expect_no_missing_values("z")
    rows = samples(x=[1])

    assert run(checks.expect_any([bad, good]), rows).state == "passed"
    assert run(checks.expect_all([bad, good]), rows).message.startswith(
        "1 of 2 checks are met, and all are expected: expect"
    )
    assert run(checks.expect_at_least(1, [good, bad]), rows).state == "passed"
    assert run(checks.expect_at_least(2, [good, bad]), rows).state == "failed"


def test_a_user_function_that_raises_is_a_failed_check():
    def fail(text):
        raise ZeroDivisionError("none")

    result = run(checks.expect_prompts_to_fit(5, tokenizer=fail), samples(x=[1]))

    assert (result.state, result.message) == ("failed", "it raised ZeroDivisionError: none")


def test_equal_subjects_are_numbered():
    results = check_samples(samples(x=[1]), [checks.expect_no_missing_values("x")] * 2)

    assert [result.subject for result in results] == ["expect_no_missing_values(x)", "expect_no_missing_values(x) #2"]


@given(st.lists(st.one_of(st.none(), st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=3), st.booleans())))
def test_counts_add_up_for_any_values(values):
    rows = samples(x=[*values, 0])
    result = run(checks.expect_column_values_to_be_between("x", -5, 5), rows)
    right = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and -5 <= v <= 5]

    assert result.checked + result.missing == len(rows)
    assert result.checked - result.failing == len(right) + 1


def test_correlations_and_quantiles_equal_scipy():
    draw = np.random.default_rng(5)
    x, y = draw.integers(0, 4, size=50).astype(float), draw.integers(0, 4, size=50).astype(float)
    rows = samples(x=[*x, None], y=[*y, 1.0])
    spearman = stats.spearmanr(x, y).statistic

    assert f"{spearman:.4g}" in run(checks.expect_feature_correlation("x", "y", method="spearman"), rows).message
    assert f"{stats.pearsonr(x, y).statistic:.4g}" in run(checks.expect_feature_correlation("x", "y"), rows).message
    assert f"{np.quantile(x, 0.9):.6g}" in run(checks.expect_column_quantile_to_be("x", 0.9, 9), rows).message


def test_a_field_of_the_metadata_may_have_a_dot_in_its_name():
    rows = [Sample(id="a", input="q", metadata={"a.b": 1, "c": {"d": 2}})]
    table = Table(rows, ["a.b", "c.d"])

    assert table.column("a.b").values == [1]
    assert table.column("c.d").values == [2]


def test_the_standard_set_checks_answers_and_groups_only_if_there_are_any():
    plain = [result.subject for result in run_standard(samples(input=["a", "b"]))]
    choices = samples(input=["a", "b", "c", "d"], expected=list("ABAB"), group=list("ttuu"))
    whole = [result.subject.partition("(")[0] for result in run_standard(choices)]

    texts = samples(expected=[f"text {k}" for k in range(40)])
    free = [result.subject.partition("(")[0] for result in run_standard(texts)]
    assert free[5:] == ["expect_one_answer_per_input", "expect_answer_not_in_prompt"]
    assert plain == [
        "expect_clean_text()", "expect_no_duplicates(near=None)", "expect_no_duplicates()", "expect_no_canaries()",
        "expect_no_secrets()",
    ]  # fmt: skip
    assert whole[5:] == [
        "expect_one_answer_per_input", "expect_answer_not_in_prompt", "expect_balanced_answer_key",
        "expect_length_not_to_predict_label", "expect_group_share_below",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("home", "name", "arguments"),
    [
        ("answers", "answer_not_in_prompt", ()), ("combined", "all", ([checks.expect_clean_text()],)),
        ("contamination", "not_contaminated", ("train.jsonl",)), ("drift", "no_data_drift", ("x", "old.jsonl")),
        ("duplicates", "no_duplicates", ()), ("labels", "label_balance", ("x",)), ("leaks", "no_secrets", ()),
        ("schema", "column_to_exist", ("x",)), ("statistics", "column_mean_to_be_between", ("x", 0, 1)),
        ("strings", "column_values_to_be_valid_emails", ("x",)), ("texts", "clean_text", ()),
        ("times", "column_values_to_be_valid_timestamps", ("x",)), ("values", "no_missing_values", ("x",)),
    ],
)  # fmt: skip
def test_stored_identities_have_the_module_in_which_a_check_was_first_written(home, name, arguments):
    identity = call(f"expect_{name}", *arguments).identity

    assert identity.partition("{")[0] == f"pytest_crucible.datasets.checks.{home}.expect_{name}"
