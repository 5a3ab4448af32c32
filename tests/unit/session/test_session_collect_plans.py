"""Tests are collected as a run did, without running them."""

from __future__ import annotations

from pytest_crucible.session.pytest_project import collect_plans

EXPERIMENT = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": "a", "input": "1"}], metrics=[])
    def test_one(sample, score):
        open("ran.txt", "w").close()
        score(right=True)
"""


def test_plans_are_read_and_no_test_runs(pytester):
    pytester.makepyfile(test_suite=EXPERIMENT)

    succeeded, _, plans = collect_plans(["-p", "no:asyncio", "test_suite.py"], pytester.path)

    assert succeeded
    assert [plan.selected for plan in plans.values()] == [1]
    assert list(plans) == ["test_suite.py::test_one"]
    assert not (pytester.path / "ran.txt").exists()
    assert not (pytester.path / ".crucible").exists()


def test_a_suite_that_cannot_be_collected_says_why(pytester):
    pytester.makepyfile(test_suite="import a_module_that_is_missing")

    succeeded, last_line, plans = collect_plans(["-p", "no:asyncio", "test_suite.py"], pytester.path)

    assert not succeeded
    assert last_line
    assert plans == {}


def test_files_of_the_run_are_left_alone(pytester):
    pytester.makepyfile(test_suite=EXPERIMENT)
    (pytester.path / "run.log").write_text("old")

    collect_plans(["-p", "no:asyncio", "test_suite.py", "--log-file=run.log", "--junitxml=run.xml"], pytester.path)

    assert (pytester.path / "run.log").read_text() == "old"
    assert not (pytester.path / "run.xml").exists()
    assert not (pytester.path / ".pytest_cache").exists()
