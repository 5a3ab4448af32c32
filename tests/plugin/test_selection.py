"""Choosing what runs: -k, -m, --co, -x, --lf, --ff."""

from __future__ import annotations

import json

import pytest

V2_V1 = ("--crucible-adapter=v2", "--compare=v1")

TWO = """
    import pytest

    pytestmark = pytest.mark.ab_compare("exact_match")

    @pytest.mark.slow
    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.90")
    async def test_hard(sample, sampler):
        return await sampler.generate(sample.input)

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.50")
    async def test_easy(sample, sampler):
        return await sampler.generate(sample.input)

    def test_plain(): pass
"""


@pytest.fixture
def two(suite):
    """An experiment whose target v2 misses, one whose target it meets, and an ordinary test."""
    suite.test(TWO)
    suite.pytester.makefile(".ini", pytest="[pytest]\nmarkers = slow")
    return suite


@pytest.mark.parametrize(
    ("chosen", "experiments"),
    [
        (("-k", "easy"), ["test_easy"]),
        (("-m", "slow"), ["test_hard"]),
        (("-m", "crucible"), ["test_hard", "test_easy"]),
        (("-m", "crucible and not slow"), ["test_easy"]),
        (("--deselect", "test_sums.py::test_hard"), ["test_easy"]),
        (("test_sums.py::test_hard",), ["test_hard"]),
    ],
    ids=["-k", "-m", "-m-ours", "-m-not", "--deselect", "nodeid"],
)
def test_deselected_experiments_send_nothing_and_have_no_verdict(two, chosen, experiments):
    document = two.json(*V2_V1, *chosen)

    assert [experiment["nodeid"].partition("::")[2] for experiment in document["experiments"]] == experiments
    total = sum(len(experiment["comparisons"]) for experiment in document["experiments"])
    for experiment in document["experiments"]:
        (pair,) = experiment["comparisons"]
        assert pair["p_adjusted"] == pytest.approx(min(1, total * pair["p_value"]))


@pytest.mark.parametrize("chosen", [("-k", "plain"), ("-m", "not crucible")], ids=["-k", "-m"])
def test_without_a_chosen_experiment_there_is_nothing_to_judge(two, chosen):
    result = two.run(*V2_V1, *chosen)

    assert result.ret == 0
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.no_fnmatch_line("*crucible =*")
    assert not (two.path / ".crucible").exists()


def test_collect_only_plans_and_spends_nothing(suite):
    suite.script(
        """
        def answer(request):
            raise SystemExit("asked")

        def base(request):
            return "0"
        """
    )

    result = suite.run("--co", "--crucible-adapter=scripted", "--compare=base", "--crucible-json=run.json")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["crucible: test_sums: scripted vs base, 20 samples x 2 arms = 40 replies", "*1 test collected*"]
    )
    result.stdout.no_fnmatch_line("*verdict*")
    assert not (suite.path / ".crucible").exists()
    assert not (suite.path / "run.json").exists()


def test_collect_only_finds_mistakes_too(suite):
    result = suite.run("--co", "--crucible-adapter=v9")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: adapter 'v9' is not configured: *"])


@pytest.mark.slow
def test_last_failed_runs_an_experiment_whose_verdict_failed_and_no_other(two, run):
    two.run(*V2_V1).assert_outcomes(passed=6, failed=1)

    again = run(*V2_V1, "--lf")
    assert again.ret == pytest.ExitCode.TESTS_FAILED
    again.stdout.fnmatch_lines(["crucible: test_hard: *", "exact_match >= 0.90 *missed*"])
    again.stdout.no_fnmatch_line("*test_easy*")

    better = two.run("--crucible-adapter=v3", "--compare=v1", "--lf")
    assert better.ret == 0
    better.assert_outcomes(passed=3)

    two.run("--crucible-adapter=v3", "--compare=v1", "--lf").assert_outcomes(passed=7)


def test_failed_first_runs_an_experiment_whose_verdict_failed_first(suite):
    suite.test(TWO.replace("@pytest.mark.slow", "").replace("0.90", "0.10").replace("0.50", "0.95"))
    suite.run(*V2_V1).assert_outcomes(passed=6, failed=1)

    result = suite.run(*V2_V1, "--ff", "-v")

    result.stdout.fnmatch_lines(["test_sums.py::test_easy PASSED*", "test_sums.py::test_hard PASSED*"])


def test_x_stops_at_a_failing_experiment_and_decides_the_finished_ones(suite):
    suite.test(
        """
        import pytest

        pytestmark = [
            pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"]),
            pytest.mark.ab_compare("exact_match"),
        ]

        async def test_first(sample, sampler):
            return await sampler.generate(sample.input)

        async def test_broken(sample, sampler):
            raise ConnectionError("no route")

        async def test_third(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    document = suite.json(*V2_V1, "-x")

    first, *others = document["experiments"]
    assert document["exit_status"] == pytest.ExitCode.TESTS_FAILED
    assert first["finished"] is True
    assert [other["finished"] for other in others] == [False] * len(others)
    assert [verdict["state"] for other in others for verdict in other["verdicts"]] == ["undecided"] * len(others)
    # A question is not easier because another one was not reached.
    (pair,) = first["comparisons"]
    assert pair["p_adjusted"] == pytest.approx(min(1, 3 * pair["p_value"]))


def test_an_experiment_that_could_not_start_counts_in_the_family(suite):
    suite.test(
        """
        import pytest

        pytestmark = [
            pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"]),
            pytest.mark.ab_compare("exact_match"),
        ]

        @pytest.fixture
        def broken():
            raise OSError("no disk")

        async def test_broken(sample, sampler, broken):
            return await sampler.generate(sample.input)

        @pytest.mark.skip(reason="later")
        async def test_skipped(sample, sampler):
            return await sampler.generate(sample.input)

        async def test_whole(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    result = suite.run(*V2_V1, "--crucible-json=run.json")

    result.stdout.fnmatch_lines(["comparison * p (Holm, 3) * verdict"])
    document = json.loads((suite.path / "run.json").read_text())
    assert document["run"]["family_size"] == 3
    (experiment,) = document["experiments"]
    assert experiment["nodeid"] == "test_sums.py::test_whole"
    (pair,) = experiment["comparisons"]
    assert pair["p_adjusted"] == pytest.approx(3 * pair["p_value"])
    assert document["exit_status"] == pytest.ExitCode.TESTS_FAILED
