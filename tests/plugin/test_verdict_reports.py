"""Verdicts as tests: their names can be pasted, expected failures are theirs, and progress never falls."""

from __future__ import annotations

import re

import pytest

XFAIL = """
    import pytest

    @pytest.mark.xfail(reason="not trained yet", strict=STRICT)
    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.7")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""


@pytest.mark.parametrize(
    ("adapter", "strict", "outcomes", "status"),
    [
        ("poor", False, {"passed": 1, "xfailed": 1}, 0),
        ("poor", True, {"passed": 1, "xfailed": 1}, 0),
        ("v3", False, {"passed": 1, "xpassed": 1}, 0),
        ("v3", True, {"passed": 1, "failed": 1}, 1),
    ],
)
def test_an_expected_failure_is_that_of_the_verdict(suite, run, adapter, strict, outcomes, status):
    suite.test(XFAIL.replace("STRICT", str(strict)))

    result = run(f"--crucible-adapter={adapter}", "-rA")

    assert result.ret == status
    result.assert_outcomes(**outcomes)
    if status:
        result.stdout.fnmatch_lines(["*XPASS(strict)* not trained yet"])


def test_runxfail_and_an_expected_exception_leave_verdicts_alone(suite):
    suite.test(XFAIL.replace("STRICT", "False"))
    suite.run("--crucible-adapter=poor", "--runxfail").assert_outcomes(passed=1, failed=1)

    suite.test(XFAIL.replace("STRICT", "False, raises=OSError"))
    suite.run("--crucible-adapter=poor").assert_outcomes(xpassed=1, failed=1)


def test_a_verdicts_name_from_the_summary_runs_its_experiment_again(suite):
    first = suite.run("--crucible-adapter=poor")
    [name] = {result for line in first.stdout.lines for result in re.findall(r"^FAILED (.+?) - ", line)}
    assert name == "test_sums.py::test_sums::exact_match >= 0.70"

    again = suite.run("--crucible-adapter=poor", name, "test_sums.py::test_sums")

    again.assert_outcomes(passed=1, failed=1)
    assert again.ret == pytest.ExitCode.TESTS_FAILED


def test_progress_counts_the_verdicts_from_the_start(suite):
    result = suite.run("--crucible-adapter=v2", "--compare=v1", "-v")

    percents = [int(result) for result in re.findall(r"\[ *(\d+)%\]", result.stdout.str())]
    assert percents == [33, 66, 100]


@pytest.mark.slow
def test_with_xdist_progress_names_and_expected_failures_are_the_same(suite):
    suite.test(suite.path.joinpath("test_sums.py").read_text() + "\n\ndef test_other():\n    pass\n")
    suite.test(XFAIL.replace("STRICT", "False"), name="test_later")

    result = suite.run("--crucible-adapter=poor", "-v", "-n2")

    assert [int(result) for result in re.findall(r"\[ *(\d+)%\]", result.stdout.str())] == [20, 40, 60, 80, 100]
    result.assert_outcomes(passed=3, failed=1, xfailed=1)

    for name in ("test_sums.py::test_sums::exact_match >= 0.70", "test_sums.py::test_sums@group"):
        again = suite.run("--crucible-adapter=poor", name, "-n2", "--dist=loadgroup")
        again.assert_outcomes(passed=1, failed=1)


def test_an_option_with_an_empty_value_is_refused(suite):
    for option in ("--crucible-adapter=", "--compare="):
        name = option.replace("--compare=", "--crucible-compare").rstrip("=")
        suite.refuses(
            suite.run(option), f"{name} is given but the value is empty: write a value, or leave the option out"
        )
