"""A baseline that was measured before is not measured again, unless something that it depends on has changed."""

from __future__ import annotations

import json
import re

import pytest
from run_documents import of_arms

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


def measure(suite):
    suite.script(SCRIPTS)
    suite.test(TEST)
    assert suite.run(*BOTH).ret == 0
    assert len(suite.calls()) == 40
    suite.forget_calls()


@pytest.fixture
def measured(suite):
    """The suite after a first run that asked both arms."""
    suite.prepare_once(measure)
    return suite


def count_calls(suite):
    return {arm: sum(line.startswith(arm) for line in suite.calls()) for arm in ("answer", "base")}


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_measured_baseline_sends_no_request_and_is_named(measured, workers):
    result = measured.run(*workers, *BOTH)

    assert count_calls(measured) == {"answer": 20, "base": 0}
    (line,) = [line for line in result.stdout.lines if "replies reused from run" in line]
    assert re.fullmatch(
        r"test_lengths: base: 20 of 20 replies reused from run [0-9a-f]{12}; --crucible-fresh calls the model again",
        line,
    )
    result.stdout.fnmatch_lines(["longer: scripted vs base *+1.000 *20 *0 *met, proven (simulated)"])


def test_lost_samples_of_a_measured_baseline_are_sent_again(suite):
    """And once more lost, it does not make a broken baseline of one that answered all the others."""
    suite.script(SCRIPTS.replace('return "?"', 'return 1 // (request.sample != "q07") * "?"'))
    suite.test(TEST)
    suite.run(*BOTH)
    suite.forget_calls()

    result = suite.run(*BOTH)

    assert result.ret == 0
    assert count_calls(suite) == {"answer": 20, "base": 1}
    result.stdout.fnmatch_lines(
        [
            "longer: scripted vs base *19 *1 *met, proven (simulated)",
            "test_lengths: base: 1 sample lost (error)",
            "test_lengths: base: 19 of 20 replies reused from run *; --crucible-fresh calls the model again",
        ]
    )


def test_json_names_the_run_that_was_used(measured):
    first = measured.json(*BOTH, "--crucible-fresh")["run"]["id"]
    (experiment,) = measured.json(*BOTH)["experiments"]

    assert of_arms(experiment, "reused") == [None, {"run": first, "replies": 20}]


CHANGES = {
    "prompt": lambda suite: suite.test(TEST.replace("what is {}", "please, what is {}")),
    "metric": lambda suite: suite.test(TEST.replace("> 1", "> 1.5")),
    "script": lambda suite: suite.script(SCRIPTS.replace('return "?"', 'return "!!"')),
    "parameters": lambda suite: suite.script(
        SCRIPTS,
        others={"base": {"backend": "scripted", "script": "scripts:base", "parameters.temperature": 1.0}},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_input_of_the_replies_is_measured_again(measured, change):
    CHANGES[change](measured)

    measured.run(*BOTH)

    assert count_calls(measured) == {"answer": 20, "base": 20}


def test_a_stored_run_is_a_baseline_by_its_id(measured):
    first = measured.json("--crucible-adapter=base")["run"]["id"]
    measured.forget_calls()

    result = measured.run("--crucible-adapter=scripted", f"--compare=run:{first}", "--crucible-json=run.json")

    assert result.ret == 0
    (experiment,) = json.loads((measured.path / "run.json").read_text())["experiments"]
    assert experiment["comparisons"][0]["difference"] == 1.0
    assert of_arms(experiment, "reused")[1] == {"run": first, "replies": 20}
    assert count_calls(measured) == {"answer": 20, "base": 0}
    # It is asked nothing, and its name says whose answers these are.
    result.stdout.fnmatch_lines([f"crucible: test_lengths: scripted vs run:{first}, 20 samples", "  longer: *"])
    result.stdout.no_fnmatch_line("* reused from run *")


@pytest.mark.slow
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
                f"test function changed since run {first}; measure the baseline again with --compare=ADAPTER"
            ]
        )
    assert measured.calls() == []


def test_an_unknown_run_is_a_usage_error(measured):
    measured.refuses(
        measured.run("--crucible-adapter=scripted", "--compare=run:nosuch"),
        "test_sums.py::test_lengths: run store '*crucible.db' has no run that begins with 'nosuch': the latest is *",
    )


def test_reruns_are_counted(measured):
    measured.run(*BOTH)
    result = measured.run(*BOTH)

    result.stdout.fnmatch_lines(["test_lengths: base: comparison 3 of scripted with this baseline since 20??-??-??"])
