"""Nothing of ours is declared before a session shows a sign of an experiment, and no session notices."""

from __future__ import annotations

import pytest

PLAIN = "def test_nothing():\n    pass\n"


@pytest.fixture
def bystander(suite):
    """The suite without its experiment: one ordinary test."""
    suite.test(PLAIN, name="test_sums")
    return suite


READS = """
    def pytest_configure(config):
        assert config.getoption("--crucible-adapter") == config.getoption("crucible_adapter") == {adapter!r}
        assert config.getoption("--crucible-explain-calls") is config.option.crucible_explain_calls is None
        assert config.getini("crucible_alpha") == {alpha!r}

    def pytest_report_header():
        return "read"
"""


def test_a_conftest_reads_options_that_are_not_set(bystander):
    bystander.pytester.makeconftest(READS.format(adapter=None, alpha=None))

    result = bystander.run()

    assert result.ret == 0
    result.stdout.fnmatch_lines(["read"])


@pytest.mark.parametrize("place", ["arguments", "environment", "configuration"])
def test_a_conftest_reads_options_that_are_set(bystander, monkeypatch, place):
    option = "--crucible-adapter=v2"
    bystander.pytester.makeconftest(READS.format(adapter="v2", alpha=0.1))
    addopts = f"addopts = {option}\n" if place == "configuration" else ""
    bystander.pytester.makefile(".ini", pytest=f"[pytest]\n{addopts}crucible_alpha = 0.1\n")
    if place == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", option)

    result = bystander.run(*([option] if place == "arguments" else []))

    assert result.ret == 0


def test_a_key_may_be_overridden_on_the_command_line(bystander):
    bystander.pytester.makeconftest(READS.format(adapter=None, alpha=0.2))

    assert bystander.run("-o", "crucible_alpha=0.2").ret == 0


def test_a_file_of_arguments_may_hold_options(suite):
    (suite.path / "arguments").write_text("--crucible-adapter=v2\n")

    result = suite.run("@arguments")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["crucible: test_sums: v2, 20 samples"])


@pytest.mark.parametrize("argument", ["--crucible-adapter=v2", "--compare=v1"])
def test_a_plugin_may_add_options_to_the_arguments(suite, argument):
    suite.pytester.makefile(".ini", pytest="[pytest]\naddopts = -p early")
    suite.pytester.makepyfile(early=f"def pytest_load_initial_conftests(args):\n    args.append({argument!r})\n")
    suite.pytester.syspathinsert()

    result = suite.run_apart(*(["--crucible-adapter=v2"] if "compare" in argument else []))

    assert result.ret in (0, 1)
    result.stdout.fnmatch_lines(["crucible: test_sums: v2*, 20 samples*"])


def test_an_unknown_option_is_refused_as_ever(bystander):
    result = bystander.run("--crucible-adaptor=v2")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --crucible-adaptor=v2*"])


@pytest.mark.parametrize("place", ["conftest", "folder/conftest"])
def test_an_unknown_hook_is_refused_as_ever(bystander, place):
    path = bystander.path / f"{place}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("def pytest_crucible_metric(config):\n    return {}\n")
    (path.parent / "test_more.py").write_text(PLAIN)

    result = bystander.run_apart()

    assert result.ret != 0
    assert "unknown hook 'pytest_crucible_metric'" in result.stdout.str() + result.stderr.str()


def test_a_conftest_of_a_folder_brings_hooks_during_collection(bystander):
    folder = bystander.path / "folder"
    folder.mkdir()
    (folder / "conftest.py").write_text("def pytest_crucible_metrics(config):\n    return {}\n")
    (folder / "test_more.py").write_text(PLAIN)

    result = bystander.run_apart()

    assert result.ret == 0
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        ("--help", ["*--crucible-adapter=NAME*", "*--compare=NAME*", "*crucible_alpha (float):*"]),
        ("-h", ["*--crucible-adapter=NAME*"]),
        ("--markers", ["@pytest.mark.crucible(dataset, *", "@pytest.mark.score_reach(*"]),
        ("--fixtures", ["sampler*", "*Sends requests to the arm*"]),
    ],
)
def test_what_pytest_shows_is_declared_in_full(bystander, option, lines):
    result = bystander.run_apart(option)

    assert result.ret == 0
    result.stdout.fnmatch_lines(lines)


@pytest.mark.uses("factors")
def test_fixtures_of_features_are_shown_with_their_help(bystander):
    result = bystander.run_apart("--fixtures")

    result.stdout.fnmatch_lines(["prompt*", "*The text of one form of the prompt*"])


def test_a_marked_test_is_a_sign(suite):
    result = suite.run()

    assert "--crucible-adapter" in result.stdout.str() + result.stderr.str()


def test_an_invalid_variable_is_reported_where_a_test_is_marked(suite, monkeypatch):
    monkeypatch.setenv("CRUCIBLE_CACHE", "sometimes")

    result = suite.run_apart()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*CRUCIBLE_CACHE=sometimes: write one of auto, only, off, refresh*"])


def test_a_conftest_may_name_the_plugin(bystander):
    bystander.pytester.makeconftest(
        f'pytest_plugins = ["pytest_crucible.plugin"]\n{READS.format(adapter=None, alpha=None)}'.replace("\n    ", "\n")
    )

    # Imported by the test already, which pytest warns of.
    result = bystander.run_apart("-p", "no:crucible", "-W", "default")

    assert result.ret == 0


def test_a_conftest_reads_options_before_the_session_is_configured(bystander):
    bystander.pytester.makeconftest(
        "def pytest_cmdline_main(config):\n    assert config.getoption('--crucible-adapter') is None\n"
    )

    assert bystander.run().ret == 0


@pytest.mark.parametrize(("value", "status"), [("0.1", 0), ("2", pytest.ExitCode.USAGE_ERROR)])
def test_a_key_of_the_configuration_is_a_sign(bystander, value, status):
    bystander.pytester.makefile(".ini", pytest=f"[pytest]\ncrucible_alpha = {value}\n")
    bystander.pytester.makeconftest(READS.format(adapter=None, alpha=float(value)))

    assert bystander.run_apart().ret == status
