"""A baseline that was measured before is not measured again, unless something that it depends on has changed."""

from __future__ import annotations

import re

import pytest

SCRIPTS = """
    def note(arm, request):
        with open("calls.txt", "a") as file:
            file.write(f"{arm} {request.sample}" + chr(10))

    def answer(request):
        note("answer", request)
        return request.input

    def base(request):
        note("base", request)
        return "?"
"""

TEST = """
    import pytest

    PROMPT = "what is {}"

    def longer(reply, sample):
        return len(reply.text) > 1

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=[longer])
    @pytest.mark.ab_compare("longer")
    async def test_lengths(sample, sampler):
        return await sampler.generate(PROMPT.format(sample.input))
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base")


@pytest.fixture
def measured(suite):
    """The suite after a first run that asked both arms."""
    suite.script(SCRIPTS)
    suite.test(TEST)
    assert suite.run(*BOTH).ret == 0
    assert len(suite.calls()) == 40
    suite.forget_calls()
    return suite


def asked(suite):
    return {arm: sum(line.startswith(arm) for line in suite.calls()) for arm in ("answer", "base")}


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_measured_baseline_is_asked_nothing_and_says_so(measured, workers):
    result = measured.run(*workers, *BOTH)

    assert asked(measured) == {"answer": 20, "base": 0}
    (line,) = [line for line in result.stdout.lines if "answers of base" in line]
    assert re.fullmatch(
        r"test_lengths: answers of base are those of run [0-9a-f]{12} \(--crucible-fresh asks anew\)", line
    )
    result.stdout.fnmatch_lines(["longer: scripted vs base *+1.000 *20 *0 *met, proven (simulated)"])


def test_json_names_the_run_that_was_used(measured):
    (experiment,) = measured.json(*BOTH)["experiments"]

    assert [arm["reused"] is not None for arm in experiment["arms"]] == [False, True]


def test_fresh_asks_again(measured):
    measured.run(*BOTH, "--crucible-fresh")

    assert asked(measured) == {"answer": 20, "base": 20}


CHANGES = {
    "prompt": lambda suite: suite.test(TEST.replace("what is {}", "please, what is {}")),
    "function": lambda suite: suite.test(TEST.replace("return await", "return  await")),
    "metric": lambda suite: suite.test(TEST.replace("> 1", "> 1.5")),
    "dataset": lambda suite: suite.write_rows(
        "questions.jsonl", [{"id": f"q{k:02}", "input": f"{k}"} for k in range(20)]
    ),
    "sampling": lambda suite: suite.test(TEST.replace("metrics=[longer]", "metrics=[longer], timeout=99")),
    "script": lambda suite: suite.script(SCRIPTS.replace('return "?"', 'return "!!"')),
    "parameters": lambda suite: suite.script(
        SCRIPTS,
        others={"base": {"backend": "scripted", "script": "scripts:base"}, "base.parameters": {"temperature": 1.0}},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_answers_depend_on_is_measured_again(measured, change):
    CHANGES[change](measured)

    measured.run(*BOTH)

    assert asked(measured) == {"answer": 20, "base": 20}


def test_a_stored_run_is_a_baseline_by_its_id(measured):
    first = measured.json("--crucible-adapter=base")["run"]["id"]
    measured.forget_calls()

    document = measured.json("--crucible-adapter=scripted", f"--compare=run:{first}")

    (experiment,) = document["experiments"]
    assert document["exit_status"] == 0
    assert experiment["comparisons"][0]["difference"] == 1.0
    assert experiment["arms"][1]["reused"]["run"] == first
    assert asked(measured) == {"answer": 20, "base": 0}


def test_a_stored_run_with_other_questions_is_refused(measured):
    first = measured.json("--crucible-adapter=base")["run"]["id"]
    CHANGES["prompt"](measured)
    measured.write_rows("questions.jsonl", [{"id": f"q{k:02}", "input": f"{k}"} for k in range(20)])
    measured.forget_calls()

    for workers in ((), ("-n2",)):
        result = measured.run(*workers, "--crucible-adapter=scripted", f"--compare=run:{first[:8]}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(
            [
                f"ERROR: test_sums.py::test_lengths: --compare=run:{first[:8]} cannot be compared with: dataset rows and "
                f"test function have changed since run {first}; measure the baseline again with --compare=ADAPTER"
            ]
        )
    assert measured.calls() == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--crucible-adapter=scripted", "--compare=run:nosuch"),
            "test_sums.py::test_lengths: --compare=run:nosuch has no answers to test_sums.py::test_lengths in "
            "'*crucible.db': give the id of a run that has them",
        ),
        (
            ("--crucible-adapter=run:nosuch",),
            "--crucible-adapter=run:nosuch: a stored run can be compared with, not judged again",
        ),
    ],
    ids=["unknown", "as candidate"],
)
def test_a_stored_run_that_cannot_be_meant_is_a_usage_error(measured, arguments, sentence):
    result = measured.run(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])
