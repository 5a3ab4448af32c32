"""The output at -q, by default, with -v and -vv, and reports in files."""

from __future__ import annotations

import json

import pytest

POOR = ("--crucible-adapter=poor", "--compare=v2")


def test_quiet_says_only_what_is_not_met(suite):
    result = suite.run("-q", *POOR)

    text = result.stdout.str()
    assert "crucible: test_sums: poor" not in text
    assert "comparison  " not in text
    result.stdout.fnmatch_lines(
        [
            "test_sums.py::test_sums::exact_match >= 0.70: missed: "
            "0.100 [[]0.028, 0.301] n=20; one-sided bound 0.283 < target 0.70",
            "test_sums.py::test_sums::exact_match: poor vs v2: missed: "
            "-0.700 [[]-0.882, -0.422] n=20, p 8e-05; a regression is proven",
        ]
    )
    assert "crucible" not in suite.run("-q", "--crucible-adapter=v2").stdout.str()


def test_each_v_adds_to_the_tables(suite):
    default, verbose, very_verbose = (suite.run(*words, *POOR) for words in ((), ("-v",), ("-vv",)))

    tables = [
        "exact_match >= 0.70 * 0.100 [[]0.028, 0.301[]] * 20 * 0 * missed, proven",
        "    one-sided bound 0.283 < target 0.70",
        "exact_match: poor vs v2 * -0.700 * 20 * 0 * missed, proven",
        "    a regression is proven",
    ]
    methods = [
        "exact_match * mean * v2 * 0.800 [[]0.584, 0.919[]] * 20 * 0 * wilson",
        "test_sums: exact_match: poor vs v2: exact unconditional, p *, conditional p *",
        "run *, seed 0, in *crucible.db",
    ]
    worst = ["test_sums.py::test_sums  q02: exact_match = 0, baseline 1", "    poor gave up on 2"]
    default.stdout.fnmatch_lines(tables)
    default.stdout.no_fnmatch_line("*wilson*")
    verbose.stdout.fnmatch_lines([*tables, *methods])
    verbose.stdout.no_fnmatch_line("*poor gave up*")
    very_verbose.stdout.fnmatch_lines([*tables, *methods, *worst])
    assert sum("poor gave up" in line for line in very_verbose.stdout.lines) == 5


@pytest.mark.parametrize(("watched", "arguments"), [(True, ()), (True, ("-q",)), (True, ("-s",)), (False, ())])
def test_progress_is_shown_on_a_terminal(suite, watched, arguments):
    suite.pytester.makeconftest(
        f"""
        def pytest_collection(session):
            terminal = session.config.pluginmanager.get_plugin("terminalreporter")
            terminal.isatty = type(terminal.isatty)({watched})
        """
    )
    suite.script("def answer(request): return '4'")
    scripted = {"backend": "scripted", "script": "scripts:answer", "latency_s": 0.3}
    suite.adapters({"scripted": scripted})

    result = suite.run("--crucible-adapter=scripted", *arguments)

    is_shown = any(line.startswith("test_sums  0/20 ") for line in result.stdout.lines)
    assert is_shown == (watched and "-q" not in arguments)


def test_replies_of_a_script_are_marked_simulated(suite):
    suite.script("def answer(request): return str(eval(request.input))\ndef base(request): return '?'")

    result = suite.run("--crucible-adapter=scripted", "--compare=base", "--crucible-json=run.json", "-rA")

    result.stdout.fnmatch_lines(
        ["exact_match >= 0.70 * met, proven (simulated)", "exact_match: scripted vs base * met, proven (simulated)"]
    )
    (experiment,) = json.loads((suite.path / "run.json").read_text())["experiments"]
    assert [arm["simulated"] for arm in experiment["arms"]] == [True, True]


def test_a_failed_report_is_reported(suite):
    suite.test(
        """
        import shutil, pytest

        @pytest.mark.crucible(dataset="questions.jsonl")
        def test_sums(sample):
            shutil.rmtree("out", ignore_errors=True)
        """
    )
    (suite.path / "out").mkdir()

    result = suite.run("--crucible-json=out/run.json", "--crucible-report=kept.json")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["report '*out/run.json' was not written: *No such file or directory*"])
    assert (suite.path / "kept.json").exists()


def test_reports_are_written_for_each_extension_asked_for(suite):
    suite.run(
        "--crucible-adapter=v2",
        "--crucible-report=one.json",
        "--crucible-report=two.json",
        "--crucible-json=three.json",
    )

    first_run, two, three = (json.loads((suite.path / f"{name}.json").read_text()) for name in ("one", "two", "three"))
    assert first_run == two == three
