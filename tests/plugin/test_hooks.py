"""The plugin's own hooks, as a conftest implements them."""

from __future__ import annotations

import json

import pytest

V2 = "--crucible-adapter=v2"


def test_a_conftest_brings_metrics_backends_datasets_and_reporters(suite, run):
    suite.adapters({"mine": {"backend": "echo", "word": "hello"}})
    suite.pytester.makeconftest(
        """
        import pytest_crucible as crucible

        class Echo:
            simulated = False

            def __init__(self, word):
                self.identity = self.word = word

            async def generate(self, request):
                return crucible.Reply(text=f"{self.word} {request.input}")

        def pytest_crucible_backend(adapter):
            return Echo(adapter.options["word"]) if adapter.backend == "echo" else None

        def pytest_crucible_dataset(name):
            return [{"id": "a", "input": "Ann"}, {"id": "b", "input": "Bob"}] if name == "people" else None

        @crucible.metric(kind="binary")
        def greets(reply, sample):
            return reply.text == f"hello {sample.input}"

        def pytest_crucible_metrics():
            return {"greets": greets}

        def pytest_crucible_reporters():
            return {"txt": lambda run: f"{len(run.verdicts)} verdicts, exit status {run.exit_status}"}
        """
    )
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="people", metrics="greets")
        @pytest.mark.quality_target("greets == 1")
        async def test_people(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    result = run("--crucible-adapter=mine", "--crucible-report=told.txt")

    assert result.ret == 0
    result.assert_outcomes(passed=2)
    assert (suite.path / "told.txt").read_text() == "1 verdicts, exit status 0"


def test_the_observed_and_concluded_hooks_get_the_results(suite, run):
    suite.pytester.makeconftest(
        """
        import json, os

        def pytest_crucible_observed(nodeid, arm, sample, observation):
            with open("calls.txt", "a") as file:
                file.write(json.dumps([nodeid, arm, sample, observation.metric, observation.value]) + chr(10))

        def pytest_crucible_concluded(config, run):
            assert not hasattr(config, "workerinput")
            with open("concluded.json", "a") as file:
                json.dump([run.exit_status, [one.subject for one in run.verdicts]], file)
        """
    )

    run("--crucible-adapter=poor", "--compare=v2")

    documents = [json.loads(line) for line in suite.calls()]
    assert len(documents) == 40
    assert ["test_sums.py::test_sums", "poor", "q05", "exact_match", False] in documents
    document = json.loads((suite.path / "concluded.json").read_text())
    assert document == [1, ["exact_match >= 0.70", "exact_match: poor vs v2"]]


def test_scores_of_joined_tests_are_observed(suite, run):
    suite.pytester.makeconftest(
        """
        import json

        def pytest_crucible_observed(nodeid, arm, sample, observation):
            with open("calls.txt", "a") as file:
                file.write(json.dumps([nodeid, arm, sample, observation.metric, observation.value]) + chr(10))
        """
    )
    suite.test(
        """
        import pytest

        @pytest.mark.ab_compare("right", "passed")
        @pytest.mark.parametrize("number", range(2))
        def test_sums(crucible, number):
            crucible.score(right=crucible.sampler.generate("?").text == "0")
        """
    )
    suite.write_rows("answers/v1.jsonl", [{"sample_id": str(k), "text": "0"} for k in range(2)])
    suite.write_rows("answers/v2.jsonl", [{"sample_id": str(k), "text": str(k)} for k in range(2)])

    run(V2, "--compare=v1")

    scores = [("v1", "0", True), ("v1", "1", True), ("v2", "0", True), ("v2", "1", False)]
    assert sorted(map(json.loads, suite.calls())) == sorted(
        ["test_sums.py::test_sums", arm, sample, metric, value]
        for arm, sample, right in scores
        for metric, value in (("right", right), ("passed", True))
    )


def test_a_verdict_may_be_waived(suite):
    suite.pytester.makeconftest(
        """
        import dataclasses

        def pytest_crucible_verdict(verdict):
            if verdict.state == "missed" and verdict.kind == "target":
                return dataclasses.replace(verdict, state="met", reason="waived until May")
        """
    )

    document = suite.json("--crucible-adapter=poor")

    assert document["exit_status"] == 0
    (verdict,) = document["experiments"][0]["verdicts"]
    assert (verdict["state"], verdict["reason"]) == ("met", "waived until May")


@pytest.mark.parametrize(
    ("hook", "option", "sentence"),
    [
        (
            "metrics(): return {'exact_match': lambda reply, sample: True}",
            V2,
            "test_sums.py::test_sums: metric 'exact_match' is offered by two plugins: rename one",
        ),
        (
            "reporters(): return {'json': lambda run: ''}",
            "--crucible-report=run.json",
            "report format 'json' is offered by two plugins: rename one",
        ),
    ],
    ids=["metric", "reporter"],
)
def test_a_name_offered_twice_is_a_usage_error(suite, hook, option, sentence):
    suite.pytester.makeconftest(f"def pytest_crucible_{hook}")

    result = suite.run(V2, option)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


def test_a_backend_may_refuse_its_configuration_with_a_sentence(suite):
    suite.adapters({"mine": {"backend": "echo"}})
    suite.pytester.makeconftest(
        """
        from pytest_crucible import SpecError

        def pytest_crucible_backend(adapter):
            raise SpecError(f"adapter {adapter.name!r} needs word = ...")
        """
    )

    result = suite.run("--crucible-adapter=mine")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: adapter 'mine' needs word = ..."])
