"""Slips that everybody makes once: each is reported in a sentence, and none of them is a green build."""

from __future__ import annotations

import textwrap

import pytest
from run_documents import of_arms

V2 = "--crucible-adapter=v2"
HEAD = """
import unittest
import pytest
from run_documents import of_arms

from pytest_crucible import metric

@metric
def right(reply, sample):
    return reply.text == sample.expected
"""


def experiment(
    marks: str = "", *, metrics: str = "right", body: str = "return await sampler.generate(sample.input)"
) -> str:
    return (
        f'{HEAD}\n{textwrap.dedent(marks)}\n@pytest.mark.crucible(dataset="questions.jsonl", metrics=[{metrics}])\n'
        f"async def test_sums(sample, sampler):\n    {body}\n"
    )


REFUSED = {
    "a percentage": (
        experiment('@pytest.mark.quality_target("exact_match >= 80")', metrics="'exact_match'"),
        "target 'exact_match >= 80' asks for 80, but 'exact_match' lies between 0 and 1: "
        "write a value in that range, a percentage as a fraction",
    ),
    "a rate above one": (
        experiment('@pytest.mark.quality_target("rate(right >= 1) >= 45")'),
        "target 'rate(right >= 1) >= 45' asks for 45, but 'rate(right >= 1)' lies between 0 and 1: *",
    ),
    "a margin without meaning": (
        experiment('@pytest.mark.ab_compare("exact_match", margin=5)', metrics="'exact_match'"),
        "ab_compare('exact_match') has margin=5, and no two values are further apart than 1: *",
    ),
    "a metric of one argument": (
        experiment("def short(reply): return True", metrics="short"),
        "metric 'short' does not take (reply, sample): write def short(reply, sample)",
    ),
    "a metric that is nearly registered": (
        experiment(metrics="'exact_mach'"),
        "metric 'exact_mach' is not registered: did you mean 'exact_match'? `crucible metrics` lists what is",
    ),
    "a target on an ordinary test": (
        f'{HEAD}\n@pytest.mark.quality_target("ok >= 0.5")\n@pytest.mark.parametrize("n", [1, 2])\ndef test_sums(n): pass\n',
        "has a quality target or a comparison but is not an experiment: mark it with *",
    ),
    "a method of a TestCase": (
        f'{HEAD}\nclass TestSums(unittest.TestCase):\n    @pytest.mark.crucible(dataset="questions.jsonl")\n'
        "    def test_sums(self): pass\n",
        "a method of a unittest.TestCase cannot be an experiment: write a function or a plain class",
    ),
}


@pytest.mark.parametrize(("source", "sentence"), REFUSED.values(), ids=REFUSED)
def test_invalid_markers_are_refused_before_any_request(suite, source, sentence):
    suite.test(source)

    suite.refuses(suite.run(V2), f"*{sentence}")


def test_a_marker_of_a_module_does_not_make_its_ordinary_tests_experiments(suite):
    suite.test(experiment() + '\npytestmark = pytest.mark.quality_target("right >= 0.5")\n\ndef test_plain(): pass\n')

    suite.run(V2).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("return 1 / 0", "    first: metric 'broken' raised ZeroDivisionError: division by zero"),
        ("return float('nan')", "    first: metric 'broken' returned nan: *"),
        ("pass", "test_sums: broken of v2 does not apply to 20 of 20 samples"),
    ],
    ids=["raises", "nan", "forgets return"],
)
def test_a_metric_that_scores_nothing_fails(suite, metric, sentence):
    marks = f"def broken(reply, sample):\n    {metric}\n\n@pytest.mark.quality_target('broken >= 0.5')"
    suite.test(experiment(marks, metrics="broken"))

    result = suite.run(V2)

    assert result.ret == 1
    result.stdout.fnmatch_lines([sentence, "FAILED *broken >= 0.5 - error in the suite: *"])


def test_a_missing_await_is_reported_and_not_scored(suite):
    suite.test(experiment(body="return sampler.generate(sample.input)"))

    result = suite.run(V2)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*the test returned something to await: return await sampler.generate(...)*"])


def test_a_bracket_in_a_folder_is_no_parameter(suite):
    folder = suite.path / "d[1]"
    folder.mkdir()
    (folder / "test_joined.py").write_text(
        HEAD + '@pytest.mark.quality_target("ok >= 0.5")\n@pytest.mark.parametrize("n", [1, 2])\n'
        "def test_joined(crucible, n): crucible.score(ok=True)\n"
    )

    suite.run(V2, "--ignore=test_sums.py").assert_outcomes(passed=3)


def test_a_helper_of_a_script_is_a_part_of_the_checkpoint(suite):
    source = """
        def help(text): return text
        def answer(request): return "4"
        def base(request): return help("{}")
        """
    suite.script(source.format("4"))
    suite.run("--crucible-adapter=scripted", "--compare=base")
    suite.script(source.format("4").replace("return text", "return text * 2"))

    document = suite.json("--crucible-adapter=scripted", "--compare=base", run=suite.run_apart)

    assert of_arms(document["experiments"][0], "reused")[1] is None


def test_an_unknown_key_of_an_adapter_is_refused(suite):
    suite.adapters({"v2": {"backend": "recorded", "path": "answers/v2.jsonl", "pth": "x"}})

    sentence = "adapter 'v2' has 'pth', which backend 'recorded' does not know: did you mean 'path'? it takes path, and parameters"
    suite.refuses(suite.run(V2), f"*{sentence}")


def test_a_configuration_key_that_is_no_number_is_named(suite):
    (suite.path / "pytest.ini").write_text("[pytest]\ncrucible_concurrency = many\n")

    result = suite.run(V2)

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*crucible_concurrency in pytest's configuration is not a valid int: *many*"])


def test_too_few_groups_leave_the_verdict_undecided(suite):
    """A total collapse in five groups: the smallest p-value that five groups can give is 0.06, so nothing could fail."""
    suite.write_rows(
        "questions.jsonl", [{"id": f"q{k}", "input": "?", "expected": "4", "group": str(k % 5)} for k in range(20)]
    )
    suite.script("def answer(request): return 'no'\ndef base(request): return '4'\n")

    document = suite.json("--crucible-adapter=scripted", "--compare=base")

    verdict = document["experiments"][0]["verdicts"][-1]
    assert (verdict["state"], verdict["reason"]) == (
        "undecided",
        "5 groups are too few to show that the arms differ: no p-value of theirs is below 0.062",
    )


@pytest.mark.slow
def test_copied_replies_name_the_run_that_sent_the_requests(suite):
    first = suite.json(V2, "--compare=v1")["run"]["id"]
    suite.json("--crucible-adapter=v3", "--compare=v1")

    third = suite.json("--crucible-adapter=poor", "--compare=v1")

    assert of_arms(third["experiments"][0], "reused")[1]["run"] == first
