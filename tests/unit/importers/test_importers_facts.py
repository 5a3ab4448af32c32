"""Facts of a metric, inferred from its name and its values; and the arms that are compared."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.importers.metric_facts import Declared, is_known, metric_facts, spelling, with_our_names
from pytest_crucible.importers.results import ImportedFile, Results, Row, number_repeats
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.imported import ImportedRun, ImportOptions, group_tasks


def results(values, *, name="m", arm="a", task="t", **more) -> Results:
    rows = [Row(sample=str(k), scores={name: value}, input=more.get("input")) for k, value in enumerate(values)]
    facts = {name: more["facts"]} if "facts" in more else {}
    return Results(task=task, arm=arm, rows=rows, facts=facts, identity=more.get("identity", f"{values}{arm}"))


def facts(values, name="m", declared=None, **more):
    (metric,), notes = metric_facts([results(values, name=name, **more)], declared or Declared())
    return (metric.kind, metric.direction, metric.low, metric.high), list(notes.values())


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("accuracy", [0.0, 1.0], ("binary", "higher", 0, 1)),
        ("Answer_Relevancy", [0.3, 1.0], ("bounded", "higher", 0, 1)),
        ("judge.accuracy", [1.0, 0.0], ("binary", "higher", 0, 1)),
        ("latency_ms", [0.5, 120.0], ("positive", "lower", 0, math.inf)),
        ("toxicity", [0.2, 0.9], ("positive", "lower", 0, math.inf)),
        ("f1", [0.0, 87.5], ("unbounded", "higher", -math.inf, math.inf)),
    ],
)
def test_known_names_give_direction_and_bounds_unless_values_break_them(name, values, expected):
    assert facts(values, name) == (expected, [])


def test_a_part_of_a_scorer_with_a_known_name_has_no_direction():
    assert not is_known("match.length")
    assert is_known("match.latency_ms")


@pytest.mark.parametrize(
    ("values", "kind", "guess"),
    [
        ([True, False], "binary", "yes or no"),
        ([0.0, 1.0], "binary", "yes or no"),
        ([0.0, 0.5], "bounded", "a score from 0 to 1"),
        ([3.0, 5.0], "unbounded", "a number without bounds"),
    ],
)
def test_an_unknown_metric_gets_a_guessed_kind_and_a_note(values, kind, guess):
    guesses, notes = facts(values, "zest")

    assert guesses[:2] == (kind, "higher")
    assert notes == [f"metric 'zest' is not known: it is taken as {guess} (crucible import --range says otherwise)"]


def test_the_kind_follows_the_values_of_all_arms():
    """Or else a method would depend on which arm happened to have only zeros and ones."""
    (metric,), _ = metric_facts([results([0.0, 1.0]), results([0.5, 1.0], arm="b")], Declared())

    assert metric.kind == "bounded"


def test_declarations_of_the_user_precede_the_file_and_the_name():
    file = MetricFacts(name="latency", direction="higher", low=0, high=10)

    assert facts([3.0], "latency", facts=file)[0] == ("bounded", "higher", 0, 10)
    declared = Declared(lower=frozenset({"latency"}), ranges={"latency": (1, 5)})
    assert facts([3.0], "latency", declared, facts=file) == (("bounded", "lower", 1, 5), [])


def test_a_value_outside_the_declared_range_is_refused():
    with pytest.raises(SpecError, match="metric 'm' has the value 7, outside its range 1 to 5: correct --range"):
        facts([3.0, 7.0], declared=Declared(ranges={"m": (1, 5)}))


def test_text_values_make_a_text_metric():
    assert facts(["cat", "dog"])[0][0] == "text"


@pytest.mark.parametrize(
    ("name", "declared", "directed"),
    [
        ("edit_distance", Declared(), False),
        ("edit_distance", Declared(ranges={"edit_distance": (0, 9)}), False),
        ("edit_distance", Declared(lower=frozenset({"edit_distance"})), True),
        ("latency", Declared(), True),
    ],
)
def test_the_direction_comes_from_the_name_or_the_user(name, declared, directed):
    (metric,), _ = metric_facts([results([0.0, 3.0], name=name)], declared)

    assert metric.is_directed == directed


# -- arms beside each other ---------------------------------------------------------------------------------------


def file(*of: Results, path="x.json") -> ImportedFile:
    return ImportedFile(path=path, sha256="0", harness="table", version="", results=of)


def own_samples(arm: str) -> list[Row]:
    return [Row(sample=f"{arm}{k}", input=k % 2, scores={"m": 1}) for k in range(3)]


def test_arms_of_one_task_are_compared_on_their_common_samples():
    (task,) = group_tasks([file(results([1, 0, 1])), file(results([1, 0], arm="b"))])

    assert [arm.arm for arm in task.arms] == ["a", "b"]
    assert task.samples == ("0", "1")
    assert task.notes == ("task 't': 1 sample of 'a' (first: 2) that not every arm was asked, left out",)


def test_samples_with_one_id_and_different_inputs_are_left_out():
    (task,) = group_tasks([file(results([1, 0], input="x")), file(Results(task="t", arm="b", rows=[
        Row(sample="0", scores={"m": 1}, input="x"), Row(sample="1", scores={"m": 1}, input="y")
    ]))])  # fmt: skip

    assert task.samples == ("0",)
    assert task.notes == ("task 't': 1 sample (first: 1) asked something else in each arm, left out",)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("new.json", "old/first.json"), ["new", "first"]),
        (("log.json", "log.eval"), ["log.json", "log.eval"]),
        (("new/log.json", "old/log.json"), ["new/log.json", "old/log.json"]),
    ],
)
def test_equal_arm_names_are_replaced_by_file_names(paths, names):
    (task,) = group_tasks([file(results([k]), path=path) for k, path in enumerate(paths)])

    assert [arm.arm for arm in task.arms] == names


def test_equal_names_of_several_arms_get_the_file_name_as_prefix():
    (task,) = group_tasks([file(results([k]), results([k], arm="b"), path=f"{k}.json") for k in (0, 1)])

    assert [arm.arm for arm in task.arms] == ["0/a", "0/b", "1/a", "1/b"]


def test_the_candidate_is_the_first_or_the_named_arm():
    files = [file(results([1]), results([1], arm="b"))]

    assert [arm.arm for arm in group_tasks(files, candidate="b")[0].arms] == ["b", "a"]
    assert [arm.arm for arm in group_tasks([file(results([1]))], names=["mine"])[0].arms] == ["mine"]


def results_in_groups(groups, arm: str) -> Results:
    rows = [Row(sample=str(k), scores={"m": 1.0}, group=group) for k, group in enumerate(groups)]
    return Results(task="t", arm=arm, rows=rows, identity=arm)


def groups_of(*arms: Results) -> list[str | None]:
    (task,) = ImportedRun.of([file(results, path=f"{results.arm}.json") for results in arms], ImportOptions()).tasks
    return [sample.group for sample in task.samples]


def test_groups_of_one_arm_apply_to_all():
    assert groups_of(results_in_groups([None] * 3, "a"), results_in_groups("xxy", "b")) == ["x", "x", "y"]


def test_a_sample_that_no_arm_reached_keeps_the_groups_of_the_others():
    arms = (replace(results_in_groups("xx", name), planned=["0", "1", "2"], finished=False) for name in "ab")

    assert groups_of(*arms) == ["x", "x", "sample 2"]


def test_a_sample_in_two_groups_is_an_error():
    with pytest.raises(SpecError, match="sample '1' is in group 'x' and, for 'b', in 'y': a sample has one group"):
        groups_of(results_in_groups("xx", "a"), results_in_groups("xy", "b"))


@pytest.mark.parametrize(
    ("files", "options", "sentence"),
    [
        ([file(results([1]))], {"names": ["x", "y"]}, "2 arms named for 1 file: give --arm once for each file"),
        (
            [file(results([1]), results([1], arm="b"))],
            {"names": ["x"]},
            "x.json has several arms, which have names already",
        ),
        ([file(results([1]))], {"candidate": "z"}, "arm 'z' does not exist: the files have a"),
        (
            [file(results([1])), file(results([1]))],
            {},
            "task 't': 'x.json' and 'x.json' are the same results: compare two that differ",
        ),
        (
            [file(results([1, 1])), file(Results(task="t", arm="b", rows=[Row(sample="q", scores={"m": 1})]))],
            {},
            r"task 't': 'a' has 2 samples \(first: 0\) and 'b' 1 \(first: q\), and no sample in common with the same input",
        ),
        (
            [file(Results(task="t", arm=arm, identity=arm, rows=own_samples(arm))) for arm in "ab"],
            {},
            r"no id in common, but 2 equal inputs: if ids are new in each run, name the inputs as the samples \(of a table: --col",
        ),
    ],
)
def test_arms_that_cannot_be_compared_are_an_error(files, options, sentence):
    with pytest.raises(SpecError, match=sentence):
        group_tasks(files, **options)


def test_metrics_are_spelled_as_targets_can_name_them():
    renamed = with_our_names(results([1.0], name="Answer Relevancy [GEval]", facts=MetricFacts(name="x", high=1)))

    assert renamed.rows[0].scores == {"Answer_Relevancy_GEval": 1.0}
    assert renamed.facts == {"Answer_Relevancy_GEval": MetricFacts(name="Answer_Relevancy_GEval", high=1)}


def test_two_names_with_one_spelling_are_an_error():
    both = Results(task="t", arm="a", rows=[Row(sample="1", scores={"a b": 1, "a/b": 0})])

    with pytest.raises(SpecError, match="metrics 'a b' and 'a/b' both become 'a_b': rename one of them in the file"):
        with_our_names(both)


@given(st.text())
def test_every_spelled_name_is_valid_in_a_target(name):
    assert parse_target(f"{spelling(name)} >= 0.5").metric == spelling(name)


@pytest.mark.parametrize(
    ("rows", "numbered"),
    [
        ("aabb", ["a0", "a1", "b0", "b1"]),
        ("abc", ["a0", "b0", "c0"]),
        ("aabc", ["a0", "a (2)0", "b0", "c0"]),
        ("aaaabbcc", ["a0", "a1", "a (2)0", "a (2)1", "b0", "b1", "c0", "c1"]),
        ("aaaaaabbb", ["a0", "a1", "a2", "a (2)0", "a (2)1", "a (2)2", "b0", "b1", "b2"]),
        # Nothing shows that a second repeat of `c` was planned: rows of one input are samples of one group.
        ("aabbc", ["a0", "a (2)0", "b0", "b (2)0", "c0"]),
        ("aab", ["a0", "a (2)0", "b0"]),
        ("", []),
    ],
)
def test_rows_of_one_sample_are_repeats_as_far_as_all_samples_have_as_many(rows, numbered):
    assert [f"{row.sample}{row.repeat}" for row in number_repeats([Row(sample=name) for name in rows])] == numbered


def test_a_declared_number_of_repeats_decides():
    rows = number_repeats([Row(sample=name) for name in "aabbc"], declared=2)

    assert [f"{row.sample}{row.repeat}" for row in rows] == ["a0", "a1", "b0", "b1", "c0"]


def test_duplicates_of_a_sample_share_a_group():
    rows = number_repeats([Row(sample=name) for name in "abca"])

    assert [(row.sample, row.group) for row in rows] == [
        ("a", "sample a"),
        ("b", "sample b"),
        ("c", "sample c"),
        ("a (2)", "sample a"),
    ]
    assert {row.group for row in number_repeats([Row(sample=name) for name in "abab"])} == {None}


def plan_task(*arms: Results, **options):
    files = [file(results, path=f"{results.arm}.json") for results in arms]
    (task,) = ImportedRun.of(files, ImportOptions(**options)).tasks
    return task


def asking(arm: str, **columns) -> Results:
    """Results of four samples, whose fields are these."""
    fields = [{name: values[k] for name, values in columns.items()} for k in range(4)]
    rows = [Row(sample=str(k), scores={"m": float(arm == "a")}, **fields[k]) for k in range(4)]
    return Results(task="t", arm=arm, rows=rows, identity=arm)


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        ({"input": ["x", "y", "x", "x"]}, 2),
        ({"input": ["x", "y", "x", "x"], "expected": [1, 1, 1, 2]}, 3),
        # The prompts that were sent decide, where the file has all of them.
        ({"input": ["w", "x", "y", "z"], "prompt": ["p", "q", "p", "r"]}, 3),
        ({"input": ["x", "y", "x", "x"], "prompt": ["p", "q", "r", "s"]}, None),
        ({"input": ["x", "y", "x", "x"], "prompt": ["p", "q", "p", None]}, 2),
        ({"input": ["x", "x", "x", "x"], "prompt": ["p", "p", "p", "p"]}, None),
    ],
)
def test_equal_questions_of_a_file_are_a_group(columns, groups):
    task = plan_task(asking("a", **columns), asking("b", **columns))

    assert task.plan.groups == groups
    assert any("different inputs" in note for note in task.notes) == (groups is not None)
    assert plan_task(asking("a", **columns), equal_inputs="keep").plan.groups is None


def test_equal_questions_of_arms_with_samples_of_their_own_pair_nothing():
    columns = {"input": ["x", "y", "x", "z"]}

    task = plan_task(asking("a", **columns), asking("b", **columns), unpaired=True)

    clusters = {sample.id: sample.cluster for sample in task.samples}
    assert clusters["a: 0"] == clusters["a: 2"] != clusters["b: 0"] == clusters["b: 2"]
    assert task.plan.groups == 6
