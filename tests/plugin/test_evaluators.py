"""Evaluators of tinker-cookbook in a session: each arm is measured through the client of its own model."""

from __future__ import annotations

import pytest

BACKEND = """
    from pytest_crucible import Reply

    class Client:
        def __init__(self, nll):
            self.nll = nll

    class Model:
        simulated = False

        def __init__(self, nll):
            self.identity, self.sampling_client = str(nll), Client(nll)

        async def generate(self, request):
            return Reply(text="")

    def pytest_crucible_backend(adapter):
        return Model(adapter.options["nll"]) if adapter.backend == "model" else None
"""
TEST = """
    import pytest
    from pytest_crucible import cookbook

    class Nll:
        def __init__(self, shift):
            self.shift = shift

        async def __call__(self, client):
            return {"test/nll": client.nll + self.shift}

    def nll(sample):
        return Nll(sample.input)

    def whole():
        return Nll(0)

    @pytest.mark.crucible(dataset=[{"id": str(k), "input": k} for k in range(5)],
                          metrics=[cookbook.evaluator(nll, direction="lower")])
    @pytest.mark.ab_compare("nll")
    async def test_each(sample):
        return ""

    @pytest.mark.crucible(dataset=[{"id": "all", "input": ""}], metrics=[cookbook.evaluator(whole, direction="lower")])
    @pytest.mark.ab_compare("whole")
    async def test_whole(sample):
        return ""
"""


@pytest.mark.uses("cookbook")
def test_arms_are_measured_by_sample_and_as_a_whole(suite):
    suite.pytester.makeconftest(BACKEND)
    suite.adapters({"v2": {"backend": "model", "nll": 1}, "v1": {"backend": "model", "nll": 2}})
    suite.test(TEST)

    each, whole = suite.json("--crucible-adapter=v2", "--compare=v1")["experiments"]
    assert {(estimate["arm"], estimate["value"], estimate["n"]) for estimate in each["estimates"]} == {
        ("v2", 3, 5),
        ("v1", 4, 5),
    }
    # Lower is better, and differences are signed so that positive is better.
    assert [(comparison["difference"], comparison["pairs"]) for comparison in each["comparisons"]] == [(1, 5)]
    assert {(estimate["value"], estimate["n"], estimate["low"]) for estimate in whole["estimates"]} == {
        (1, 1, None),
        (2, 1, None),
    }
    assert [(comparison["p_value"], comparison["low"]) for comparison in whole["comparisons"]] == [(None, None)]


@pytest.mark.uses("cookbook")
def test_an_evaluation_as_a_whole_needs_one_sample(suite):
    suite.pytester.makeconftest(BACKEND)
    suite.adapters({"v2": {"backend": "model", "nll": 1}})
    suite.test(TEST.replace('{"id": "all", "input": ""}', '{"id": "a", "input": ""}, {"id": "b", "input": "c"}'))

    result = suite.run("--crucible-adapter=v2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*whole() evaluates data of its own as a whole, and would do so for each of 2 samples*"]
    )
