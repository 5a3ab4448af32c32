"""Sources of settings, their order, and errors in them."""

from __future__ import annotations

import pytest


def test_the_adapter_may_come_from_the_configuration(suite):
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_adapter = v2")

    result = suite.run()

    assert result.ret == 0
    result.stdout.fnmatch_lines(["crucible: test_sums: v2, 20 samples"])


def test_the_command_line_wins_over_the_configuration(suite):
    suite.pytester.makefile(
        ".ini", pytest="[pytest]\ncrucible_adapter = v2\ncrucible_alpha = 0.1\ncrucible_store = kept/runs.db"
    )

    document = suite.json("--crucible-adapter=v3", "--crucible-alpha=0.2")

    assert document["experiments"][0]["arms"][0]["name"] == "v3"
    assert document["run"]["alpha"] == 0.2
    assert document["experiments"][0]["estimates"][0]["level"] == 0.8
    assert (suite.path / "kept/runs.db").exists()


def test_the_environment_names_the_store_over_the_configuration(suite, monkeypatch):
    monkeypatch.setenv("CRUCIBLE_STORE", "from_environment.db")
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_store = from_file.db")

    suite.run("--crucible-adapter=v2")

    assert (suite.path / "from_environment.db").exists()
    assert not (suite.path / "from_file.db").exists()


@pytest.mark.parametrize(
    "table",
    [
        '[tool.pytest.ini_options]\ncrucible_adapter = "v2"\ncrucible_alpha = "0.1"\ncrucible_seed = "7"',
        '[tool.pytest]\ncrucible_adapter = "v2"\ncrucible_alpha = 0.1\ncrucible_seed = 7',
    ],
    ids=["ini_options", "native"],
)
def test_pyproject_may_hold_everything(suite, table):
    if table.startswith("[tool.pytest]") and pytest.version_tuple < (9, 0):
        pytest.skip("pytest reads this table since 9.0")
    for name in ("pytest.ini", "crucible.toml"):
        (suite.path / name).unlink()
    adapter = '[tool.crucible.adapters.v2]\nbackend = "recorded"\npath = "answers/v2.jsonl"'
    suite.pytester.makepyprojecttoml(f"{table}\n{adapter}")

    document = suite.json()

    assert (document["exit_status"], document["run"]["alpha"], document["run"]["seed"]) == (0, 0.1, 7)


def test_an_adapter_may_be_a_uri(suite):
    (suite.path / "crucible.toml").unlink()

    result = suite.run("--crucible-adapter=recorded:answers/v2.jsonl")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["crucible: test_sums: recorded:answers/v2.jsonl, 20 samples"])


def test_our_compare_option_has_its_long_name_beside_another_plugin(suite):
    suite.pytester.makeconftest(
        """
        def pytest_addoption(parser):
            parser.addoption("--compare", help="of somebody else")
        """
    )

    result = suite.run_apart("--crucible-adapter=v2", "--crucible-compare=v1")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["crucible: test_sums: v2 vs v1, *"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--crucible-alpha=2", "crucible_alpha is 2: an error rate above 0 and below 0.5, such as 0.05"),
        ("--crucible-concurrency=0", "crucible_concurrency is 0: at least 1 sample at a time"),
        ("--crucible-timeout=-1", "crucible_timeout is -1: seconds, or 0 for no limit"),
        ("-ocrucible_undecided=maybe", "crucible_undecided = 'maybe': write one of warn, fail"),
        pytest.param(
            "--crucible-checks=ony",
            "--crucible-checks=ony: write one of first, only, off",
            marks=pytest.mark.uses("data_checks"),
        ),
    ],
    ids=["alpha", "concurrency", "timeout", "undecided", "checks"],
)
def test_an_invalid_setting_is_a_usage_error(suite, arguments, sentence):
    result = suite.run("--crucible-adapter=v2", arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.lines == [f"ERROR: {sentence}", ""]


def test_an_invalid_setting_is_a_usage_error_on_workers(suite):
    result = suite.run_n2("--crucible-adapter=v2", "--crucible-alpha=2")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: crucible_alpha is 2: an error rate above 0 and below 0.5, such as 0.05"])


def test_the_options_are_described_in_help(suite):
    result = suite.run("--help")

    result.stdout.fnmatch_lines(
        [
            "experiments on language models:",
            "*--crucible-adapter=NAME*",
            "*--compare=NAME*",
            "*crucible_undecided (string):*",
        ]
    )
    suite.run("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.crucible(dataset, *", "@pytest.mark.quality_target(*", "@pytest.mark.ab_compare(*"]
    )
