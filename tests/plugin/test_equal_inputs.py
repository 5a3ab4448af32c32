"""The same question under several ids is one group, in sessions and in files of other harnesses."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.store.experiments import load_experiments

QUESTIONS, IDS = 20, 6
RIGHT = {"v1": 13, "v2": 3}
"""How many of the questions each arm answers, under all of their ids."""
ARMS = ("--crucible-adapter=v2", "--compare=v1")
KEEP = "--crucible-equal-inputs=keep"
TEST = """
    import pytest

    @pytest.mark.crucible(dataset="asked.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        assert sample.group is None
        return await sampler.generate(sample.input)
"""


@pytest.fixture
def repeated(suite):
    """Twenty questions under six ids each."""
    names = [(k, f"q{k}-{j}") for k in range(QUESTIONS) for j in range(IDS)]
    suite.write_rows("asked.jsonl", [{"id": name, "input": f"question {k}", "expected": "yes"} for k, name in names])
    for arm, right in RIGHT.items():
        rows = [{"sample_id": name, "text": "yes" if k < right else "no"} for k, name in names]
        suite.write_rows(f"answers/{arm}.jsonl", rows)
        lines = [f"{name},question {k},{int(k < right)}" for k, name in names]
        (suite.path / f"{arm}.csv").write_text("\n".join(["id,input,exact_match", *lines]))
    suite.test(TEST, name="test_sums")
    return suite


def comparison(document):
    [experiment] = document["experiments"]
    return experiment["comparisons"][0], experiment["dataset"]


def test_the_same_question_under_six_ids_counts_once(repeated, run):
    result = run("--crucible-json=run.json", *ARMS)

    result.stdout.fnmatch_lines(
        [
            "crucible: test_sums: v2 vs v1, 120 samples in 20 groups x 2 arms = 240 replies",
            "  20 groups, because 120 of the samples have only 20 different inputs: equal",
            "    inputs are one group (crucible_equal_inputs)",
        ]
    )
    ours, dataset = comparison(json.loads((repeated.path / "run.json").read_text()))
    assert (dataset["n"], dataset["groups"], ours["pairs"], ours["clusters"]) == (120, 20, 120, 20)
    assert ours["p_value"] == pytest.approx(2 / 2**10)


def test_a_project_keeps_each_sample(repeated):
    document = repeated.json(KEEP, *ARMS)

    ours, dataset = comparison(document)
    assert (dataset["groups"], ours["clusters"]) == (None, None)
    assert ours["p_value"] < 1e-9


def test_replies_that_were_stored_without_groups_are_used(repeated):
    # As versions stored them that knew no groups of equal inputs.
    repeated.run(KEEP, "--crucible-adapter=v1", "--crucible-tag=old").assert_outcomes(passed=1)

    document = repeated.json("--crucible-adapter=v2", "--compare=tag:old")

    ours, dataset = comparison(document)
    assert (dataset["groups"], ours["p_value"]) == (20, pytest.approx(2 / 2**10))
    # The same rows, whatever their groups are: the second candidate on them.
    with existing_store(str(repeated.path / ".crucible" / "crucible.db")) as store:
        [stored] = load_experiments(store, document["run"]["id"])
        assert stored.candidates_on_samples() == 2


def test_files_of_other_harnesses_are_grouped_too(repeated, crucible):
    _, output, _ = crucible("compare", "v2.csv", "v1.csv", "--json")
    ours, dataset = comparison(json.loads(output))

    assert (dataset["groups"], ours["p_value"]) == (20, pytest.approx(2 / 2**10))
    assert (
        "20 groups, because 120 of the samples have only 20 different inputs"
        in crucible("compare", "v2.csv", "v1.csv")[1]
    )
    _, output, _ = crucible("compare", "v2.csv", "v1.csv", "--equal-inputs=keep", "--json")
    assert comparison(json.loads(output))[1]["groups"] is None
    # Nothing is stored, and the last line says so.
    assert "run v2.csv vs v1.csv, seed 0, not stored" in crucible("compare", "v2.csv", "v1.csv", "-v")[1].splitlines()


def test_the_configuration_of_a_project_applies_to_files(repeated, crucible):
    with (repeated.path / "pytest.ini").open("a") as file:
        file.write("\ncrucible_equal_inputs = keep\n")

    _, output, _ = crucible("import", "v2.csv", "v1.csv", "--json")

    assert comparison(json.loads(output))[1]["groups"] is None
    (repeated.path / "pytest.ini").write_text("[pytest]\ncrucible_equal_inputs = join\n")
    status, _, errors = crucible("compare", "v2.csv", "v1.csv")
    assert (status, "crucible_equal_inputs = 'join' in pytest's configuration: write group or keep" in errors) == (
        4,
        True,
    )


def prompts(document):
    [line] = [line for line in document["experiments"][0]["sections"]["run_checks"] if line["check"] == "prompts"]
    return line["cells"], line["severity"], line["problem"]


@pytest.mark.uses("run_checks")
def test_prompts_as_sent_are_those_of_the_plan(repeated):
    cells, severity, problem = prompts(repeated.json(*ARMS))

    assert (cells, severity, problem) == (["the same 20 among 120 samples"] * 2, "note", "")


@pytest.mark.uses("run_checks")
def test_equal_prompts_that_count_apart_are_a_warning(repeated):
    rows = [{"id": f"q{k}", "input": {"row": k, "text": f"question {k % 20}"}, "expected": "yes"} for k in range(120)]
    repeated.write_rows("asked.jsonl", rows)
    for arm, right in RIGHT.items():
        texts = ["yes" if k % 20 < right else "no" for k in range(120)]
        repeated.write_rows(f"answers/{arm}.jsonl", [{"sample_id": f"q{k}", "text": texts[k]} for k in range(120)])
    repeated.test(TEST.replace("(sample.input)", "('Please: ' + sample.input['text'])"), name="test_sums")

    result = repeated.run(*ARMS, "--crucible-json=run.json")

    cells, severity, problem = prompts(json.loads((repeated.path / "run.json").read_text()))
    assert (cells, severity) == (["the same 20 among 120 samples"] * 2, "warn")
    assert problem.startswith("120 of 120 samples were sent the same prompt as one that counts apart")
    result.stdout.fnmatch_lines(
        [
            "what was measured*",
            "prompts *the same 20 among 120 samples *the same 20 among 120 samples*",
            f"test_sums: {problem}",
        ]
    )
    # The same line comes from the store.
    repeated.command("show", "latest").stdout.fnmatch_lines([f"test_sums: {problem}"])


@pytest.mark.uses("run_checks")
def test_a_test_that_tells_equal_inputs_apart_is_a_warning(repeated):
    repeated.test(TEST.replace("(sample.input)", "(sample.id + ': ' + sample.input)"), name="test_sums")

    cells, severity, problem = prompts(repeated.json(*ARMS))

    assert (cells, severity) == (["the same 120"] * 2, "warn")
    assert problem.startswith("the test sent different prompts for 20 groups of samples with equal input")


def test_a_stored_run_has_the_groups_of_its_plan(crucible):
    status, _, errors = crucible("compare", "one", "two", "--equal-inputs=group")

    assert status == 4
    assert "a stored run has the groups of its plan" in errors
