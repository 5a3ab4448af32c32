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


def test_default_gives_tables_and_no_methods(suite):
    result = suite.run(*POOR)

    result.stdout.fnmatch_lines(
        [
            "target * estimate [[]95 % interval[]] * n * lost * verdict",
            "exact_match >= 0.70 * 0.100 [[]0.028, 0.301[]] * 20 * 0 * missed, proven",
            "    one-sided bound 0.283 < target 0.70",
            "comparison * difference [[]95 % interval[]] * n * lost * p * verdict",
            "exact_match: poor vs v2 * -0.700 * 20 * 0 * missed, proven",
            "    a regression is proven",
        ]
    )
    result.stdout.no_fnmatch_line("*wilson*")


def test_verbose_adds_every_estimate_with_its_method(suite):
    result = suite.run("-v", *POOR)

    result.stdout.fnmatch_lines(
        [
            "metric * statistic * arm * estimate * n * lost * method",
            "exact_match * mean * poor * 0.100 [[]0.028, 0.301[]] * 20 * 0 * wilson",
            "exact_match * mean * v2 * 0.800 [[]0.584, 0.919[]] * 20 * 0 * wilson",
            "test_sums: exact_match: poor vs v2: exact unconditional, p *, conditional p *",
            "run *, seed 0, in *crucible.db",
        ]
    )
    result.stdout.no_fnmatch_line("*poor gave up*")


def test_an_experiment_without_targets_or_comparisons_shows_its_estimates(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    result = suite.run("--crucible-adapter=v2")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "metric       statistic  arm  estimate               n  lost  method",
            "exact_match  mean       v2   0.800 [[]0.584, 0.919[]]  20     0  wilson",
        ]
    )
    assert "wilson" not in suite.run("-q", "--crucible-adapter=v2").stdout.str()


def test_very_verbose_lists_the_worst_samples_with_their_replies(suite):
    result = suite.run("-vv", *POOR)

    result.stdout.fnmatch_lines(["test_sums.py::test_sums  q02: exact_match = 0, baseline 1", "    poor gave up on 2"])
    assert sum("poor gave up" in line for line in result.stdout.lines) == 5


def test_replies_cannot_drive_the_terminal(suite):
    suite.write_rows("answers/poor.jsonl", [{"sample_id": f"q{k:02}", "text": "\x1b[31mred\x07"} for k in range(20)])

    result = suite.run("-vv", *POOR)

    result.stdout.fnmatch_lines(["    \\x1b[[]31mred\\x07"])
    assert "\x1b[31mred" not in result.stdout.str()


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


def test_json_has_the_documented_keys(suite):
    document = suite.json(*POOR)

    assert set(document) == {"format", "run", "experiments", "exit_status"}
    assert document["format"] == 2
    (experiment,) = document["experiments"]
    assert {"nodeid", "dataset", "arms", "estimates", "comparisons", "verdicts"} <= set(experiment)
    assert {"name", "sha256", "n"} <= set(experiment["dataset"])
    assert all({"name", "role", "adapter"} <= set(arm) for arm in experiment["arms"])
    estimate = {"metric", "arm", "n", "lost", "value", "low", "high", "level", "method"}
    assert all(estimate <= set(entry) for entry in experiment["estimates"])
    comparison = {"metric", "candidate", "baseline", "pairs", "lost", "clusters", "difference", "low", "high"}
    comparison |= {"p_value", "p_exact", "p_adjusted", "method", "margin", "detectable"}
    assert all(comparison <= set(entry) for entry in experiment["comparisons"])
    assert [comparison["bounds"]["method"] for comparison in experiment["comparisons"]] == ["exact unconditional"]
    assert document["run"]["family_size"] == 1
    assert [set(verdict) for verdict in experiment["verdicts"]] == [
        {"subject", "kind", "state", "proven", "suite_error", "reason"}
    ] * 2
    assert [(verdict["kind"], verdict["state"]) for verdict in experiment["verdicts"]] == [
        ("target", "missed"),
        ("comparison", "missed"),
    ]
    assert document["exit_status"] == 1


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--crucible-report=run.docx", "report 'run.docx': nothing writes .docx (known: *json*)"),
        ("--crucible-report=run", "report 'run': its name has no ending that says how to write it (known: *json*)"),
        (
            "--crucible-json=no/such/run.json",
            "report '*no/such/run.json' cannot be written: '*no/such' is not a directory",
        ),
    ],
    ids=["extension", "no extension", "directory"],
)
def test_a_report_path_is_checked_before_any_request(suite, option, sentence):
    result = suite.run("--crucible-adapter=v2", option)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])
    assert not (suite.path / ".crucible").exists()


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
