"""The main job: is v2 better than v1, and is it good enough?"""

from __future__ import annotations

import json
import re

import pytest

V2_V1 = ("--crucible-adapter=v2", "--compare=v1")


def test_verdicts_are_tests_with_names_of_their_own(suite, run):
    result = run("-v", *V2_V1)

    assert result.ret == 0
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "crucible: test_sums: v2 vs v1, 20 samples x 2 arms = 40 replies",
            "  exact_match: can detect differences of 31 points or more",
            "  (80 % power, if the arms differ on 31 % of samples, all in one direction)",
            "*= crucible =*",
            "exact_match >= 0.70 *0.800 [[]0.584, 0.919[]] *20 *0 *met",
            "exact_match: v2 vs v1 *+0.200 [[]-0.001, +0.437[]] *20 *0 *0.050 *met",
        ]
    )
    named = re.findall(r"test_sums\.py::test_sums::(?:.*?)(?= PASSED|$)", result.stdout.str(), re.MULTILINE)
    assert named == ["test_sums.py::test_sums::exact_match >= 0.70", "test_sums.py::test_sums::exact_match: v2 vs v1"]


def test_a_proven_regression_and_a_missed_target_fail_the_session(suite):
    result = suite.run("--crucible-adapter=poor", "--compare=v2")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "FAILED test_sums.py::test_sums::exact_match >= 0.70 - missed: 0.100 [[]*[]] n=20; one-sided bound * < target 0.70",
            "FAILED test_sums.py::test_sums::exact_match: poor vs v2 - missed: -0.700 [[]*[]] n=20, p *",
        ]
    )


def test_json_says_the_same_plain_and_on_two_workers(suite):
    plain = suite.json(*V2_V1)
    spread = suite.json(*V2_V1, "--crucible-store=other.db", run=suite.run_n2)

    assert plain["exit_status"] == 0
    about = ["id", "started", "finished", "seed", "git", "environment", "alpha", "correction", "family_size", "budgets"]
    assert list(plain["run"]) == [*about, "root"]
    for document in (plain, spread):
        for name in ("id", "started", "finished", "root"):
            del document["run"][name]
    assert plain == spread


def test_several_baselines_share_alpha_and_name_themselves(suite):
    document = suite.json("--crucible-adapter=v3", "--compare=v1", "--compare=poor")

    (experiment,) = document["experiments"]
    assert [arm["name"] for arm in experiment["arms"]] == ["v3", "v1", "poor"]
    assert [arm["role"] for arm in experiment["arms"]] == ["candidate", "baseline", "baseline"]
    subjects = [verdict["subject"] for verdict in experiment["verdicts"]]
    assert subjects == ["exact_match >= 0.70", "exact_match: v3 vs v1", "exact_match: v3 vs poor"]
    first, second = experiment["comparisons"]
    assert first["difference"] == pytest.approx(0.3)
    assert second["p_adjusted"] == pytest.approx(min(1, 2 * second["p_value"]))
    assert first["p_adjusted"] == pytest.approx(max(first["p_value"], second["p_adjusted"]))


def test_without_a_baseline_only_targets_are_judged(suite):
    result = suite.run("--crucible-adapter=v2")

    assert result.ret == 0
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["crucible: test_sums: v2, 20 samples"])
    result.stdout.no_fnmatch_line("*comparison*")


def test_the_detectable_difference_is_printed_before_any_request(suite):
    suite.write_rows("questions.jsonl", [{"id": f"q{k}", "input": str(k), "expected": "?"} for k in range(200)])
    suite.script("def answer(request): return 'one'\ndef base(request): return 'other'")

    result = suite.run("--crucible-adapter=scripted", "--compare=base", "--co")

    result.stdout.fnmatch_lines(
        [
            "crucible: test_sums: scripted vs base, 200 samples x 2 arms = 400 replies",
            "  exact_match: can detect differences of 8.7 points or more",
            "  (80 % power, if the arms differ on 20 % of samples)",
        ]
    )


def test_an_experiment_without_a_comparison_sends_nothing_to_the_baseline(suite):
    suite.script(
        """
        def answer(request):
            return "?"

        def base(request):
            open("calls.txt", "a").write("asked" + chr(10))
        """
    )
    suite.test((suite.path / "test_sums.py").read_text().replace('@pytest.mark.ab_compare("exact_match")', ""))

    result = suite.run("--crucible-adapter=scripted", "--compare=base", "--crucible-json=run.json")

    assert suite.calls() == []
    result.stdout.fnmatch_lines(
        [
            "crucible: test_sums: scripted, 20 samples",
            "  base not queried: the test compares nothing (@pytest.mark.ab_compare)",
            "exact_match >= 0.70 *0.000 *20 *0 *missed*",
        ]
    )
    (experiment,) = json.loads((suite.path / "run.json").read_text())["experiments"]
    assert [arm["name"] for arm in experiment["arms"]] == ["scripted"]
    assert experiment["comparisons"] == []


def test_a_session_without_experiments_is_untouched(suite):
    suite.test("def test_plain(): pass")
    assert suite.run(*V2_V1, "--crucible-json=run.json").ret == 0
    suite.test("# nothing")
    assert suite.run(*V2_V1).ret == pytest.ExitCode.NO_TESTS_COLLECTED

    assert not (suite.path / ".crucible").exists()
    assert not (suite.path / "run.json").exists()
