"""Beside pytest's own plugins, with some of them switched off, and without us."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

POOR = ("--crucible-adapter=poor", "--compare=v2")


def test_markers_are_registered_for_strict_runs(suite):
    result = suite.run("--strict-markers", "--strict-config", "--crucible-adapter=v2", "--compare=v1")

    assert result.ret == 0


def test_without_the_plugin_its_hooks_may_stay_in_a_conftest(suite):
    suite.pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(optionalhook=True)
        def pytest_crucible_concluded(run):
            raise SystemExit("this is never called")
        """
    )
    suite.test(
        """
        def test_plain(): pass
        """
    )

    result = suite.run_apart("-p", "no:crucible")

    assert result.ret == 0
    result.assert_outcomes(passed=1)
    assert "crucible" not in suite.run_apart("-p", "no:crucible", "--help").stdout.str()


@pytest.mark.parametrize("plugin", ["terminal", "cacheprovider", "junitxml", "logging", "capture"])
def test_a_plugin_of_pytest_may_be_missing(suite, plugin):
    result = suite.run("-p", f"no:{plugin}", *POOR)

    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_verdicts_are_test_cases_in_junit_files(suite, run):
    run("--junitxml=junit.xml", *POOR)

    cases = ElementTree.parse(suite.path / "junit.xml").getroot().iter("testcase")
    values = {case.attrib["name"]: [failure.attrib["message"] for failure in case.iter("failure")] for case in cases}
    assert list(values) == ["test_sums", "exact_match >= 0.70", "exact_match: poor vs v2"]
    assert values["test_sums"] == []
    (target,) = values["exact_match >= 0.70"]
    assert target == "missed: 0.100 [0.028, 0.301] n=20; one-sided bound 0.283 < target 0.70"
    (comparison,) = values["exact_match: poor vs v2"]
    assert comparison.startswith("missed: -0.700 [-0.882, -0.422] n=20, p ")


def test_a_broken_module_beside_us_interrupts_as_ever(suite):
    suite.pytester.makepyfile(test_broken="import nothing_of_that_name")

    result = suite.run("--crucible-adapter=v2")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    result.stdout.no_fnmatch_line("*verdict*")


def test_no_warning_of_ours_is_raised_as_an_error(suite):
    result = suite.run_apart(*POOR)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*Warning*")
    assert result.stderr.str().strip() == ""


@pytest.mark.slow
def test_maxfail_counts_verdicts_after_all_are_given(suite):
    """A verdict is no reason to stop: they are given together."""
    result = suite.run("--maxfail=1", *POOR)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=2)


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_pytest_asyncio_beside_us_keeps_to_its_own_tests(suite, mode):
    suite.pytester.makefile(
        ".ini", pytest=f"[pytest]\nasyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function"
    )
    suite.test(
        """
        import asyncio, pytest, pytest_asyncio

        @pytest_asyncio.fixture
        async def prompt():
            await asyncio.sleep(0)
            return "sum of {}"

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.70")
        async def test_sums(sample, sampler, prompt):
            return await sampler.generate(prompt.format(sample.input))

        @pytest.mark.asyncio
        async def test_theirs(prompt):
            await asyncio.sleep(0)
        """
    )

    result = suite.pytester.runpytest_inprocess("-W", "error", "-p", "no:hypothesispytest", "--crucible-adapter=v2")

    assert result.ret == 0
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["exact_match >= 0.70 *0.800 *met"])
