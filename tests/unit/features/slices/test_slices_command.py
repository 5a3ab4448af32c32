"""Pages of `crucible show`: the fairness of stored runs, and features of a user's own in a search."""

from __future__ import annotations

import math
import re
import sys

import pytest
from experiment_builders import store_run

from pytest_crucible import Sample, SpecError
from pytest_crucible.features.slices import section
from pytest_crucible.features.slices.command import (
    explain_run,
    feature_problem,
    load_fairness,
    load_feature,
    parse_by,
    read_feature,
)
from pytest_crucible.records.datasets import By, Field

RIGHT = [True] * 30 + [False] * 10 + [True] * 15 + [False] * 25


def samples(**metadata):
    return [Sample(id=f"q{k}", input=f"text {k}", metadata={name: values[k // 40] for name, values in metadata.items()})
            for k in range(80)]  # fmt: skip


def fairness_of(store, by="sex", metrics=(), reference=""):
    return load_fairness(store, "r1", parse_by(by), metrics, reference, alpha=0.05)


def test_all_arms_are_measured_and_changes_are_adjusted(store):
    store_run(store, "r1", samples(sex="fm"), v2=RIGHT, v1=[True] * 30 + [False] * 10 + [True] * 30 + [False] * 10)

    (measured,) = fairness_of(store)

    assert [(gap.arm, gap.expression) for gap in measured.slices.gaps][:2] == [
        ("v2", "gap(exact by sex)"), ("v1", "gap(exact by sex)"),
    ]  # fmt: skip
    assert measured.slices.gaps[0].extreme.value == pytest.approx(0.375)
    assert measured.decisions == ()
    changes = {change.contrast.expression: change for change in measured.changes}
    assert set(changes) == {"gap(exact by sex)", "ratio(exact by sex)", "worst(exact by sex)"}
    assert changes["gap(exact by sex)"].difference == pytest.approx(-0.375)
    assert changes["gap(exact by sex)"].p_adjusted >= changes["gap(exact by sex)"].p_value


def test_without_a_baseline_there_are_gaps_and_no_changes(store):
    store_run(store, "r1", samples(sex="fm"), v2=RIGHT)

    (measured,) = fairness_of(store)

    assert measured.slices.gaps[0].extreme.n == 80
    assert measured.changes == ()


def test_a_run_without_metadata_has_to_run_again(store):
    store_run(store, "r1", samples(), v2=RIGHT)

    with pytest.raises(SpecError, match="run r1 was stored without metadata, so it has no field 'sex'; run it again"):
        fairness_of(store)


def test_an_imported_run_without_metadata_has_to_be_imported_again(store):
    store_run(store, "r1", samples(), v2=RIGHT)
    store.execute("UPDATE runs SET environment = :environment", environment='{"imported": [{"file": "t.csv"}]}')

    with pytest.raises(SpecError, match="no field 'sex'; import it again, a table with --column metadata=sex"):
        fairness_of(store)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "sexe"}, "--by sexe: no sample has a field 'sexe'; did you mean 'sex'?"),
        ({"metrics": ["exat"]}, "run r1 has no metric 'exat': did you mean 'exact'?"),
        ({"reference": "x"}, "--reference='x' is not a slice of sex: the slices are 'f', 'm'"),
        ({"by": "sex &"}, "cannot be read"),
    ],
)
def test_unknown_fields_metrics_and_slices_are_usage_errors(store, options, message):
    store_run(store, "r1", samples(sex="fm"), v2=RIGHT)

    with pytest.raises(SpecError, match=re.escape(message)):
        fairness_of(store, **options)


def test_fields_are_written_as_in_targets():
    assert parse_by("sex & age(25, 45)") == By((Field("sex"), Field("age", (25.0, 45.0))))


def test_a_users_feature_explains_a_run(store, tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_crucible.features.slices.command.has_scikit_learn", lambda: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_features.py").write_text("def late(sample):\n    return int(sample.id[1:]) >= 40\n")
    store_run(store, "r1", samples(sex="ff"), v2=[True] * 80, v1=RIGHT)

    (explained,) = explain_run(store, "r1", "", ["own_features:late"])

    assert explained.result.findings[0].slice == "own_features:late = true"
    for reference, message in (("own_features", "write MODULE:FUNCTION"), ("own_features:early", "cannot be loaded")):
        with pytest.raises(SpecError, match=message):
            load_feature(reference)


def test_one_arm_cannot_be_explained(store):
    store_run(store, "r1", samples(sex="fm"), v2=RIGHT)

    with pytest.raises(SpecError, match="no experiment with two arms"):
        explain_run(store, "r1", "", [])
    with pytest.raises(SpecError, match=r"has no metric 'exat': did you mean 'exact'\?"):
        explain_run(store, "r1", "exat", [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age(x)", r"--by='age\(x\)' cannot be read at 'x' \(character 5\): expected a number, for example sex & race"),
        ("", r"--by='' cannot be read at its end: expected a field of the samples, for example sex & race"),
        ("sex race", r"cannot be read at 'race' \(character 5\): expected the end of a field"),
    ],
)
def test_invalid_fields_are_usage_errors(text, message):
    with pytest.raises(SpecError, match=message):
        parse_by(text)


def test_a_quantity_that_is_not_cut_is_named_in_a_note(store):
    store_run(
        store,
        "r1",
        [Sample(id=f"q{k}", input="text", metadata={"age": k // 4}) for k in range(100)],
        v2=[True, False] * 50,
    )

    (measured,) = fairness_of(store, by="age")

    assert [note.text for note in section.view(measured.slices, ()).notes] == [
        "25 slices have 4 samples on average, and prove little; cut the numbers: by age(8, 16)"
    ]


SAMPLES = [Sample(id=f"s{k}", input="?") for k in range(40)]


@pytest.mark.parametrize(
    "function",
    [
        lambda sample: sample.id < "s2",
        lambda sample: int(sample.id[1:]),
        lambda sample: None if sample.id < "s2" else sample.id[1],
        lambda sample: math.inf if sample.id < "s2" else 1.0,
    ],
    ids=["bool", "number", "some", "infinite"],
)
def test_texts_numbers_and_bools_are_features(function):
    values = read_feature("own:f", function, SAMPLES)

    assert values == [function(sample) for sample in SAMPLES]
    assert feature_problem("own:f", values) == ""


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (lambda sample: 1 / 0, "raised ZeroDivisionError on sample 's0': division by zero; return None where"),
        (lambda sample: sys.exit(3), "raised SystemExit on sample 's0': 3; return None where"),
        (lambda sample: [1], "returned a list on sample 's0': return a text, a number, a bool, or None"),
    ],
)
def test_a_feature_that_raises_or_returns_another_type_is_refused(value, problem):
    with pytest.raises(SpecError, match=re.escape(problem)):
        read_feature("own:f", value, SAMPLES)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([None] * 40, "own:f makes no slices: it returned 0 different values for 40 samples; return numbers"),
        ([math.nan] * 40, "it returned 0 different values"),
        ([1] * 40, "it returned 1 different value for"),
        (
            [sample.id for sample in SAMPLES],
            "it returned 40 different values for 40 samples; return numbers, or 2 to 20",
        ),
    ],
)
def test_a_feature_without_slices_says_why(values, problem):
    assert problem in feature_problem("own:f", values)


def test_a_module_that_raises_is_refused(tmp_path, monkeypatch):
    (tmp_path / "broken_features.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SpecError, match="its module raised ZeroDivisionError: division by zero; correct the module"):
        load_feature("broken_features:f")


async def slow(sample):
    return 1


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (":", "cannot be read: write MODULE:FUNCTION"),
        ("math:", "cannot be read: write MODULE:FUNCTION"),
        ("no_such_module:f", "cannot be loaded: No module named 'no_such_module'; write MODULE:FUNCTION"),
        ("math:pi", "is a number: name a function of a sample"),
        (f"{__name__}:slow", "is an async function: write it with def, and without await"),
    ],
)
def test_a_feature_that_cannot_be_called_is_refused(reference, problem):
    with pytest.raises(SpecError, match=re.escape(problem)):
        load_feature(reference)
