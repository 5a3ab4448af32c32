"""--crucible-sample: one sample of the candidate, alone, in the main thread."""

from __future__ import annotations

import subprocess

import pytest

Q19 = ("--crucible-adapter=v2", "--compare=v1", "--crucible-sample=q19")

ASSERTING = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    {kind} test_sums(sample, sampler):
        reply = {ask} sampler.generate(sample.input)
        assert reply.text == sample.expected
        return reply
"""
KINDS = pytest.mark.parametrize("kind", [("async def", "await"), ("def", "")], ids=["async def", "def"])


def test_one_sample_shows_prompt_reply_and_scores(suite, run):
    result = run(*Q19)

    assert result.ret == 0
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*= crucible =*",
            "sample   q19",
            "input    19 + 19",
            "expected 38",
            "reply    v2 gave up on 19",
            "exact_match = False",
        ]
    )
    result.stdout.no_fnmatch_line("*verdict*")
    assert not (suite.path / ".crucible").exists()


@KINDS
def test_a_failure_has_the_tests_own_traceback(suite, kind):
    suite.test(ASSERTING.format(kind=kind[0], ask=kind[1]))

    result = suite.run(*Q19)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [">       assert reply.text == sample.expected", "E       AssertionError: *", "test_sums.py:6: AssertionError"]
    )
    result.stdout.no_fnmatch_line("*running.py*")


def debug(suite, commands, *arguments):
    """Return the debugger's output for a few commands."""
    command = [*suite.pytester._getpytestargs(), "-p", "no:asyncio", "-p", "no:hypothesispytest", *arguments]
    process = suite.pytester.popen(command, stdin=subprocess.PIPE)
    out, _ = process.communicate("\n".join(commands).encode(), timeout=60)
    return out.decode()


@pytest.mark.slow
@KINDS
def test_pdb_stands_in_the_test(suite, kind):
    suite.test(ASSERTING.format(kind=kind[0], ask=kind[1]))

    output = debug(suite, ["p sample.id + '!'", "q"], "--pdb", *Q19)

    assert "'q19!'" in output
    assert "test_sums.py(6)test_sums()" in output


@pytest.mark.slow
def test_a_breakpoint_stops_in_the_test(suite):
    suite.test(ASSERTING.format(kind="def", ask="").replace("assert reply", "breakpoint()\n        assert reply"))

    output = debug(suite, ["p reply.text + '!'", "q"], *Q19)

    assert "'v2 gave up on 19!'" in output


def test_an_unknown_sample_is_a_usage_error(suite):
    result = suite.run("--crucible-adapter=v2", "--crucible-sample=q99")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --crucible-sample=q99: no selected experiment has a sample with that id: did you mean *"]
    )


def test_experiments_without_the_sample_are_skipped(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset=[{"id": "other", "input": 1}])
        def test_other(sample, score):
            score(one=1)

        @pytest.mark.crucible(dataset="questions.jsonl")
        def test_sums(sample, score):
            score(one=1)
        """
    )

    result = suite.run("--crucible-sample=q03", "-rs")

    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["one = 1*", "SKIPPED * no sample 'q03' here"])
