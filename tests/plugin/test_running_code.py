"""Metrics that run model-written code: only when the user says so."""

from __future__ import annotations

import csv

import pytest

from pytest_crucible.sandbox import containment, is_allowed

CODE = """
    import pytest

    def problems():
        test = "def check(f):\\n    assert f(2) == 4"
        return [{"id": f"p{k}", "input": "def double(x):\\n", "test": test, "entry_point": "double"} for k in range(4)]

    @pytest.mark.crucible(dataset=problems, metrics=["humaneval_pass"])
    @pytest.mark.quality_target("humaneval_pass >= 0.70")
    async def test_code(sample, sampler):
        return await sampler.generate(sample.input)
"""


@pytest.fixture
def code(suite):
    suite.test(CODE, name="test_sums")
    right, wrong = "    return 2 * x", "    import socket; socket.socket()"
    suite.write_rows("answers/v2.jsonl", [{"sample_id": f"p{k}", "text": right if k else wrong} for k in range(4)])
    return suite


@pytest.mark.skipif(not containment().complete, reason=containment().missing or "it is complete")
def test_programs_are_run_where_that_is_allowed(code, run):
    result = run("--crucible-run-code", "--crucible-adapter=v2")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["humaneval_pass >= 0.70  0.750 *4     0  met*"])
    assert not is_allowed()


@pytest.mark.skipif(not containment().complete, reason=containment().missing or "it is complete")
def test_the_seed_of_the_tests_is_stored_and_the_same_for_both_arms(code):
    code.test(
        CODE.replace("@pytest.mark.quality", '@pytest.mark.ab_compare("humaneval_pass")\n    @pytest.mark.quality')
    )
    code.write_rows("answers/v1.jsonl", [{"sample_id": f"p{k}", "text": "    return x + x"} for k in range(4)])
    code.run("--crucible-run-code", "--crucible-adapter=v2", "--compare=v1", "--crucible-report=rows.csv")

    rows = csv.DictReader((code.path / "rows.csv").read_text().splitlines())
    stored = [row["label"] for row in rows if row["metric"] == "humaneval_seed"]

    assert len(stored) == 8
    assert len(set(stored)) == 1
    assert int(stored[0]) > 1


def test_without_permission_nothing_is_scored_and_the_option_is_named(code):
    result = code.run("--crucible-adapter=v2")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "humaneval_pass >= 0.70  unknown *0     4  error in the suite",
            "*NotAllowed: this metric runs code that a model wrote: allow it with --crucible-run-code or*",
        ]
    )
