"""Reports as files: of a session and of a stored run, on GitHub, as a notebook; and what is refused before anything is asked."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

# What runs in process must not import these again: matplotlib does not know its own classes then.
import matplotlib.backends.backend_pdf
import matplotlib.backends.backend_svg  # noqa: F401
import nbformat
import pytest
from nbclient import NotebookClient

import pytest_crucible.report.plots  # noqa: F401
from pytest_crucible.cli import USAGE, main

POOR = ("--crucible-adapter=poor", "--compare=v2")
FORMATS = ("md", "tex", "bib", "html", "json", "csv", "jsonl", "ipynb", "forest.svg", "pairs.pdf")


@pytest.fixture
def reported(suite, monkeypatch):
    """A suite whose session was reported in every format."""
    monkeypatch.chdir(suite.path)
    suite.run(*POOR, *(f"--crucible-report=session.{entry}" for entry in FORMATS))
    return suite


@pytest.mark.slow
def test_a_report_of_a_stored_run_equals_that_of_its_session(reported, capsys):
    store = str(reported.path / ".crucible" / "crucible.db")
    assert main(["report", "--store", store, *(part for entry in FORMATS for part in ("-o", f"stored.{entry}"))]) == 0

    assert re.match(r"report of run \w+ written to stored.md\n", capsys.readouterr().out)
    for item in FORMATS:
        assert (reported.path / f"stored.{item}").read_bytes() == (reported.path / f"session.{item}").read_bytes(), item
    assert "❌ missed, proven" in (reported.path / "stored.md").read_text(encoding="utf-8")
    assert (reported.path / "stored.pairs.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (reported.path / "stored.forest.svg").read_text(encoding="utf-8")
    assert not list(reported.path.glob(".*.[0-9]*"))


def test_verdicts_that_a_hook_has_waived_stay_waived(suite, monkeypatch):
    suite.pytester.makeconftest(
        """
        import dataclasses

        def pytest_crucible_verdict(verdict):
            return dataclasses.replace(verdict, state="met", reason="waived until Friday")
        """
    )
    monkeypatch.chdir(suite.path)
    suite.run(*POOR)
    main(["report", "-o", "run.md"])

    text = (suite.path / "run.md").read_text(encoding="utf-8")
    assert text.startswith("## ✅ poor is worse than v2 by 70.0 points ")
    assert "both gates hold.\n\n2 verdicts: 2 met\n" in text
    assert "waived until Friday" in text


@pytest.mark.slow
def test_a_notebook_recomputes_every_number(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"], epochs=2)
        @pytest.mark.quality_target("exact_match >= 0.7")
        @pytest.mark.quality_target("p95(seconds) <= 5")
        @pytest.mark.quality_target("rate(seconds >= 1) >= 0.2")
        @pytest.mark.ab_compare("exact_match", margin=0.1)
        @pytest.mark.ab_compare("seconds")
        async def test_sums(sample, sampler, score):
            score(seconds=float(sample.id[1:]) / 10)
            return await sampler.generate(sample.input)
        """
    )
    suite.run(*POOR, "--crucible-report=run.ipynb")

    notebook = nbformat.read(suite.path / "run.ipynb", 4)
    nbformat.validate(notebook)
    NotebookClient(notebook, resources={"metadata": {"path": str(suite.path)}}).execute()

    printed = "".join(output.text for cell in notebook.cells for output in cell.get("outputs", []))
    assert "exact_match of poor" in printed
    assert "p95(seconds) <= 5" in printed
    assert "exact_match: poor vs v2" in printed


@pytest.mark.slow
def test_a_notebook_of_another_run_fails_where_a_number_differs(reported):
    source = (reported.path / "session.ipynb").read_text(encoding="utf-8")
    notebook = nbformat.reads(source.replace("0.100 [0.028, 0.301]", "0.900 [0.028, 0.301]"), 4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]

    with pytest.raises(AssertionError, match=r"exact_match of poor: 0\.100 .* is not 0\.900"):
        exec("\n".join(code), {})


def test_on_github_the_job_has_a_summary_and_each_verdict_a_note(suite, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.path / "summary.md"))
    (suite.path / "summary.md").write_text("before\n")

    result = suite.run(*POOR)

    summary = (suite.path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("before\n## ❌ poor is worse than v2 by 70.0 points ")
    assert "none of 2 gates holds: 2 are missed.\n\n2 verdicts: 2 missed\n" in summary
    result.stdout.fnmatch_lines(
        [
            "::error file=test_sums.py,line=*,title=test_sums.py%3A%3Atest_sums::exact_match >= 0.70: missed: *",
            "::error file=test_sums.py,line=*,title=test_sums.py%3A%3Atest_sums::exact_match: poor vs v2: missed: *",
        ]
    )


def test_on_github_what_does_not_fail_is_a_warning(suite, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.path / "no" / "summary.md"))

    result = suite.run("--crucible-adapter=v2", "--compare=v1", "--crucible-strict")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["the job's summary was not written: *", "::warning file=test_sums.py,line=*undecided*"]
    )
    result.stdout.no_fnmatch_line("::error*")


def test_elsewhere_nothing_is_annotated(suite):
    suite.run(*POOR).stdout.no_fnmatch_line("::*")


def test_a_junit_file_has_the_numbers_of_each_verdict(suite):
    suite.run(*POOR, "--junitxml=run.xml")

    cases = ElementTree.parse(suite.path / "run.xml").iter("testcase")
    values = {
        case.get("name"): {entry.get("name"): entry.get("value") for entry in case.iter("property")} for case in cases
    }
    target, pair = values["exact_match >= 0.70"], values["exact_match: poor vs v2"]
    assert (target["crucible_state"], target["crucible_estimate"], target["crucible_n"]) == ("missed", "0.1", "20")
    assert target["crucible_lost"] == "0"
    assert float(pair["crucible_low"]) < float(pair["crucible_estimate"]) < float(pair["crucible_high"]) < 0
    assert float(pair["crucible_p_adjusted"]) < 0.001


@pytest.mark.parametrize(
    ("option", "name", "sentence"),
    [
        ("report", "/proc/run.md", "report '/proc/run.md' cannot be written: '/proc': *"),
        ("report", "run.svg", "report 'run.svg': nothing writes .svg (known: *forest.svg*)"),
        ("json", "no/such/run.json", "report '*no/such/run.json' cannot be written: '*no/such' is not a directory"),
    ],
)
def test_an_unwritable_report_is_refused_before_any_request(suite, option, name, sentence, monkeypatch, capsys):
    suite.refuses(suite.run("--crucible-adapter=v2", f"--crucible-{option}={name}"), sentence)

    monkeypatch.chdir(suite.path)
    capsys.readouterr()
    assert main(["report", "-o", name]) == USAGE
    assert capsys.readouterr().err.startswith("crucible report: report ")


def test_a_run_without_latencies_has_no_latency_figure(suite):
    result = suite.run("--crucible-adapter=v2", "--crucible-report=latency.svg", "--crucible-report=run.md")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*latency.svg' was not written: there is nothing to draw: the run told no latency"])
    assert (suite.path / "run.md").exists()
