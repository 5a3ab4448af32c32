"""Code of the suite that raises while its experiments are planned fails those, in one sentence, and nothing else."""

from __future__ import annotations

import pytest

TESTS = """
    import pytest

    def load():
        rows = [{"id": "a", "input": "1", "expected": "1"}]
        BODY
        return rows

    @pytest.mark.crucible(dataset=load, metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.0")
    async def test_loads(sample, sampler):
        return await sampler.generate(sample.input)

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.0")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)

    def test_ordinary():
        pass
"""


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "raise ValueError('no table')",
            "*the experiment cannot be planned: ValueError: no table (test_sums.py, line 5)",
        ),
        ("import sys; sys.exit(3)", "*the experiment cannot be planned: SystemExit: 3 (test_sums.py, line 5)"),
        ("return [1 / 0]", "*ZeroDivisionError: division by zero (test_sums.py, line 5)"),
    ],
)
def test_a_dataset_function_that_raises_fails_its_experiment_alone(suite, run, body, sentence):
    suite.test(TESTS.replace("BODY", body))

    result = run("--crucible-adapter=v2")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    # Two tests and one verdict pass.
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines([sentence])
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_a_dataset_function_may_skip(suite):
    suite.test(TESTS.replace("BODY", "pytest.skip('no access to the table')"))

    result = suite.run("--crucible-adapter=v2", "-rs")

    assert result.ret == 0
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED *no access to the table*"])


JOINED = """

    def test_joins(crucible):
        crucible.score(right=True)
"""


def test_a_model_that_cannot_be_imported_fails_all_experiments(suite, run):
    suite.script("def answer(request):\n    return request input\n")
    suite.test(TESTS.replace("BODY", "") + JOINED)

    result = run("--crucible-adapter=scripted")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    counts = result.parseoutcomes()
    assert (counts["passed"], counts.get("failed", 0) + counts.get("errors", 0)) == (1, 3)
    result.stdout.fnmatch_lines(["*the experiment cannot be planned: SyntaxError: * (scripts.py, line 2)"])
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_where_no_test_is_run_it_is_a_usage_error(suite):
    suite.test(TESTS.replace("BODY", "raise ValueError('no table')"))

    result = suite.run("--crucible-adapter=v2", "--collect-only")

    suite.refuses(result, "test_sums.py::test_loads: the experiment cannot be planned: ValueError: no table *")
